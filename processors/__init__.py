"""Processors: pure components that turn events into findings; no input or output, no clock, no log."""

__version__ = "0.1.0"
