"""Numerical methods that models share: statistics, trees, Kriging, and conformal bands."""
