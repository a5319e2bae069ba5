"""What crosses a boundary: events, outputs, the log, errors. Imports nothing of ours."""
