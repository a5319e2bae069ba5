"""Models of job features: communication, placement, and attribute laws."""
