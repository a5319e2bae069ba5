"""The learner: deterministic processing of one journal partition, with checkpoints."""
