"""What users' runs of a week cost beyond what was needed, and what to ask for next time."""
