"""Pure mathematics: models of run time and the statistics around them, on numpy and scipy alone."""
