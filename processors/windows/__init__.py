"""Telemetry as windows: what the hosts of one source partition measured of late, minute by minute, in columns."""
