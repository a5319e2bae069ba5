"""From the bytes of a message, or the lines of a file, to events of jobs. Imports contracts only."""
