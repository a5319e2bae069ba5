"""How well models predict, measured on real curves: `python -m tests.quality --data FOLDER`."""
