"""The processors turn events into findings. They perform no input or output, and read neither clock nor log."""

__version__ = "0.1.0"
