"""The processing pipeline of one shard: the state, the predictor, and the stages that records pass through."""
