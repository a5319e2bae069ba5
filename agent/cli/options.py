"""Options that several commands share."""

import click

from agent.config.load import load
from agent.config.tree import Config

config_option = click.option(
    "-c", "--config", type=click.Path(dir_okay=False), default=None, help="Configuration; without one, the defaults."
)
required_config_option = click.option(
    "-c", "--config", type=click.Path(dir_okay=False), required=True, help="Configuration of the agent."
)
timezone_option = click.option(
    "--timezone", default="UTC", show_default=True, metavar="ZONE",
    help="Zone of times without one, as sacct prints them; such as Europe/Oslo or +02:00.",
)  # fmt: skip


def load_or_default(path: str | None, *, sources_required: bool = False) -> Config:
    """Return the configuration of a file, or the defaults where there is none.

    >>> load_or_default(None).topics.prefix
    'scalewatch'
    """
    return Config() if path is None else load(path, sources_required=sources_required)
