"""Anomalies on streams of measurements, strictly online: nothing is judged by what came later.

`record` detects unprecedented values of one series, `multivariate` detects resources of a host that no longer fit together
and compares hosts with their group, `daily` learns the usual values of each hour and day. A step handles many rows with a
few array operations, so that a minute of thousands of hosts takes a few steps.
"""
