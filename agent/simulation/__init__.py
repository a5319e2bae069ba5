"""A simulated centre with known true run times; deterministic, seeded, without a clock."""
