"""Power and energy: from what sensors tell to watts and joules that can be believed.

`cumulative` (counters that only grow: wraps and resets), `readings` (values that can not be), `energy` (power over time,
with gaps), `recalibrated` (watts of parts of a host, or of hosts without a sensor, from their events), `efficiency`
(which size takes the least energy).
"""
