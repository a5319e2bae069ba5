"""The agent: what reads, orders, remembers and answers around the processors."""

__version__ = "0.1.0"
