"""What crosses boundaries: events, outputs, names, settings and the protocols of the log and of readers."""
