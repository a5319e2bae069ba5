"""Windows of telemetry: recent measurements of the hosts of one source partition, summarised by minute and stored in columns."""
