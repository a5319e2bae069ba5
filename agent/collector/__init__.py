"""Collectors: they read the sources, decode records, and write the journal."""
