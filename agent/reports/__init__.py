"""Reports for people: the week, waste, energy, and backtests."""
