"""Generated reference pages about the agent: formats, topics, fields, and measured costs."""
