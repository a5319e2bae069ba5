"""Run time of one application by job size: model, prediction, related curves, drift detection, and messages."""
