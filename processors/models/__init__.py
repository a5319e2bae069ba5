"""Pure mathematics: models of run time, and the statistics that they need. This package depends only on numpy and scipy."""
