"""Sinks: the outputs of the agent, such as web pages, metrics, alerts and files."""
