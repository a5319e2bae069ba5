"""Prometheus: the table of metrics, and what is exported at each scrape."""
