"""Sinks: how results leave the agent."""
