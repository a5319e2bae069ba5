"""Windows of telemetry: the recent measurements of the hosts of one source partition, by minute, in columns."""
