"""Features of jobs that explain run times: times, placements, and shared communication features."""
