"""Anomalies on streams of measurements, strictly online: nothing is judged by what came later.

`table` (state of many rows as arrays), `record` (one series: values never seen before), `combined` (all resources of a
host together: what does not go with the others), `peers` (hosts against each other). Each step takes every row at most once and costs a few array operations,
so that a minute of thousands of hosts is a few steps.
"""
