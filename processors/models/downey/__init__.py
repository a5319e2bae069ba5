"""Downey's model of speed-up: the curve, fits of the curve, and a Bayesian average over all Downey curves."""
