"""Reference files: what producers call the nodes of a centre, and what their sensors measure."""
