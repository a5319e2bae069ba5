"""Web pages and JSON API."""
