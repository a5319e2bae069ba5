"""Features of jobs that explain run times: models per application, placements in the network, and shared costs of communication."""
