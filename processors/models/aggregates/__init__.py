"""Summaries of many runs in bounded memory."""
