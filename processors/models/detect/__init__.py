"""Online anomaly detection on streams of measurements: later values never change the verdict on an earlier value.

`record` detects unprecedented values of one series. `multivariate` detects resources of a host that no longer fit together, and
compares hosts with their group. A step handles many rows with a few array operations, so that a minute of thousands of hosts
takes a few steps.
"""
