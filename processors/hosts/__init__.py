"""Hosts: measured minutes, anomalies, comparison with peers, and jobs on hosts."""
