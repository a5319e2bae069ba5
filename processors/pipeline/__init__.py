"""The processing pipeline of one shard: state, predictor and stages."""
