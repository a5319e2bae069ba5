"""Metrics that were scraped and are known by names of conventions: of Prometheus and OpenTelemetry."""
