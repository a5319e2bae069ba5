"""A simulated centre with known true run times; deterministic for a seed, and independent of the clock."""
