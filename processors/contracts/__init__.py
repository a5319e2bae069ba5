"""Types that packages exchange: events, output messages, names, settings, and the protocols of the log and of readers."""
