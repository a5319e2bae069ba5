"""Decoders from the bytes of a message, or the lines of a file, to job events. Imports contracts only."""
