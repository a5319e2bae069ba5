"""Profiles of jobs: readings of the meters of their hosts during the run."""
