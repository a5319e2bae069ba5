"""Telemetry decoders, which fill columns of samples without creating an object for each sample."""
