"""Checkpoints of a shard: what their records look like, whatever broker keeps them."""
