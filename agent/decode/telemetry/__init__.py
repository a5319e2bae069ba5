"""Telemetry of producers as columns of samples, without an object for each sample."""
