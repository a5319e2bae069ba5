"""Communication: how the mapping of processes onto a network decides the run time.

N. Jain, A. Bhatele, M. Robson, T. Gamblin, L. Kale, "Predicting application performance using supervised learning on
communication features", SC 2013: what links, messages and injection queues did, averaged over all of them or over the
outliers; a few such features together, and extremely randomised trees, order mappings by their run time.

`traffic` (the bounded arrays a run brings) -> `features` -> `hybrids` (sets of features, and the models of them) ->
`scores` (how well an order is predicted).
"""
