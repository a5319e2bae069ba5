"""From minutes of hosts to profiles of runs: what was measured while exactly one job ran on a host is that job's.

`quantities` (what a resource is to a profile), `meters` (hosts and their resources by row), `readings` (minutes that wait
to be closed), `closing` (readings to amounts), `kept` (closed minutes until they are given away), `owners` (whose a minute
of a host is), `sums` (what runs got), `runs` (on which hosts a run was), `summary` (sums to a profile).
"""
