"""Telemetry of producers as columns of samples: no object per sample stays behind."""
