"""Reports for people: weekly waste, energy, and backtests."""
