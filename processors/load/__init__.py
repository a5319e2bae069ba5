"""Run time under the load of hosts (Schopf)."""
