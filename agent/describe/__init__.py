"""Generated descriptions of the agent: formats, topics, fields, and measured costs."""
