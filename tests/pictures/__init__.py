"""Pictures of the pages, made from the demo."""
