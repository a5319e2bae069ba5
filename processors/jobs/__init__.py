"""Jobs: life cycle, run deduplication, failure rates and remaining time."""
