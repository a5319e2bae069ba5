"""So that `python -m agent.cli` is the command, too."""

from agent.cli import main

main()
