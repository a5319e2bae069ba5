"""The configuration: one typed tree, read from YAML with every problem named at its line."""
