"""Run time from whatever is configured of a job: sizes, counts, choices.

`attributes` (attributes of a job as numbers) -> `law` (powers and products of them) -> `forest` (the law, and what trees
make of its residuals) -> `model` (both, and which one to believe).
"""
