"""Alerts: their life cycle, and the rules by subject."""
