"""A simulated centre whose truth is known: pure, seeded, without a clock."""
