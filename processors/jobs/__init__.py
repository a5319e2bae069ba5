"""Jobs: life cycle, run deduplication, failure rates, and slow runs explained by faulty hosts."""
