"""Views: the content of each page, as plain data for its template."""
