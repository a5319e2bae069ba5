"""Entry point for `python -m agent.cli`."""

from agent.cli import main

main()
