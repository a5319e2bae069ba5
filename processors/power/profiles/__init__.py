"""Profiles of jobs: sums of the readings of host meters during each run."""
