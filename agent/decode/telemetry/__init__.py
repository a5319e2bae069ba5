"""Decoders of telemetry into columns of samples, without an object for each sample."""
