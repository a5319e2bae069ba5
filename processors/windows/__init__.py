"""Telemetry as windows: what the hosts of one source partition measured recently, minute by minute, in columns."""
