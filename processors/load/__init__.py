"""Run times under the current load of the hosts, after Schopf."""
