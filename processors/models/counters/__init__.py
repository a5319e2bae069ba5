"""Run time and power of an application, explained and predicted from hardware counters.

V. Taylor, X. Wu, C. Lively et al., MuMMI: "Power-aware predictive models of hybrid (MPI/OpenMP) scientific applications"
(C. Lively et al., Computer Science, 2012): counters as rates, rank correlation, regression, principal components, and a
linear model of the few that remain.

`selection` selects counters, or keeps all if none qualifies, measures errors near and far from known runs, and chooses a
linear model. `gaussian_process` is a smooth regression on all counters. `model` combines both by their errors and reports the
effect of each counter. `given_size` explains the part of the run time that the job size does not explain.
"""
