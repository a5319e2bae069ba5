"""Prometheus: the table of metrics, and the collectors that export values at each scrape."""
