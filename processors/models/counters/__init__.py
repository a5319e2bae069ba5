"""Counters and power: which hardware counters explain run time and power of an application, and what they let expect.

V. Taylor, X. Wu, C. Lively et al., MuMMI: "Power-aware predictive models of hybrid (MPI/OpenMP) scientific applications"
(C. Lively et al., Computer Science, 2012): counters as rates, rank correlation, regression, principal components, and a
linear model of the few that remain.

`rates` -> `correlation`, `regression`, `components` -> `selection` (the whole pipeline, and its explanation) ->
`smooth` (a regression on all counters that bends) -> `model` (both, fitted in steps, and which one to believe).
"""
