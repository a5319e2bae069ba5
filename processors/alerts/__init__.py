"""Alerts: life cycle, delivery policy, and the rules for applications and hosts."""
