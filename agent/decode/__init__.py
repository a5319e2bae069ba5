"""Decoders that turn the bytes of a message, or the lines of a file, into job events. Imports contracts only."""
