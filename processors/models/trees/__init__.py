"""Extremely randomised trees in numpy: all trees of a forest grow together, a level at a time.

`forest` (what a forest is, and its answers: means, medians and quantiles of what lies in the leaves), `grow` (how it
comes about). A forest is a function of its rows, in their order, and of the seed: it is never stored, but grown again.
"""
