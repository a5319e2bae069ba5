"""Scraped metrics with names by convention: of Prometheus and OpenTelemetry."""
