"""Profiles of jobs: what the meters of their hosts read while they ran."""
