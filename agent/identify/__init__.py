"""Which application a job ran."""
