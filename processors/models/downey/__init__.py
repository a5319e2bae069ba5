"""Downey's model of speed-up: the curve, its fits and the average over all of its curves."""
