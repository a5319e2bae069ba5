"""The log in memory: partitions, groups and compaction in one process."""
