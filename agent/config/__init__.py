"""The configuration: one typed tree, read from YAML; every problem is reported with its line."""
