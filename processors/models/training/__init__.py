"""What models of profiles are trained on, and how their answers are followed.

`runs` (a bounded reservoir of runs, which all models of an application share), `table` (its runs as columns for one
target), `tracking` (each answer against what came: error, level, band; and which of several models to believe).

Models are functions of the reservoir: they are never stored, but fitted again. So that a restored agent answers as the
one before did, the reservoir keeps new runs apart until it is told to advance, and everybody fits to the others.
"""
