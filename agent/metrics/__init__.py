"""Metrics: one table, one injected object, and collectors that read the service when Prometheus asks."""
