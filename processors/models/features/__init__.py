"""Models of run time from job features: communication, placement in the network, and attributes."""
