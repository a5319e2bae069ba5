"""Backtests: what would have been said about past jobs when they started, scored against what happened."""
