"""Hosts: their minutes, anomalies, peers and jobs."""
