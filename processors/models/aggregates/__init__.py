"""Bounded-memory summaries of many runs."""
