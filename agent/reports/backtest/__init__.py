"""Backtests: predict past jobs from the data available at their start, and score the predictions against the outcomes."""
