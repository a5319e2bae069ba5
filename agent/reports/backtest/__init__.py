"""Backtests: what would have been predicted of past jobs when they started, scored against what happened."""
