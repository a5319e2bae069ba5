"""Counters and power: which hardware counters explain run time and power of an application, and what they let expect.

V. Taylor, X. Wu, C. Lively et al., MuMMI: "Power-aware predictive models of hybrid (MPI/OpenMP) scientific applications"
(C. Lively et al., Computer Science, 2012): counters as rates, rank correlation, regression, principal components, and a
linear model of the few that remain.

`selection` (the steps, and a regression on all counters where nothing survives them) -> `linear` (which of these answers) and
`gaussian_process` (a regression on all counters that bends) -> `distance` (how wrong each is, near and far) -> `model` (both, fitted
in steps, each as far as it was right) -> `effects` (what each counter adds). `given_size` is run time beside what its size takes.
"""
