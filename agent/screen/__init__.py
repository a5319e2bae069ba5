"""The demo's screen: what a service knows, in a terminal."""
