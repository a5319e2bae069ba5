"""Run time by size: model, prediction, related curves, drift and messages of one application."""
