"""The HTTP side: reads only. Health, metrics, JSON and a plain page."""
