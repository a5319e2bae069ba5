"""Builds the whole agent from its parts: roles, supervision, reloads, the demo and replays."""
