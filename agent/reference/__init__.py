"""Reference data of a site: nodes, topology, and calendar."""
