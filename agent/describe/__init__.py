"""What the agent says about itself: formats, topics, fields, and measurements."""
