"""Types that cross the borders of packages: events, output messages, names, settings, and the protocols of the log and of readers."""
