"""The order of work of one shard: state, predictor and stages."""
