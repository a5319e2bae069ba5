"""The learner: a deterministic fold over one journal partition, with its checkpoints."""
