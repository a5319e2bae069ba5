"""Which client library does the work: the one of the configuration, or what is installed."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final, cast

from agent.log.kafka.client import Client
from agent.log.kafka.settings import ClientName, KafkaSettings
from processors.contracts.errors import ConfigError

ADAPTERS: Final[dict[ClientName, str]] = {
    "kafka-python": "agent.log.kafka.python.client",
    "confluent": "agent.log.kafka.confluent.client",
}


def client_name(wanted: ClientName) -> ClientName:
    """Return the client that a setting means here. Raises ConfigError where it is not installed."""
    installed = find_spec("confluent_kafka") is not None
    if wanted == "auto":
        return "confluent" if installed else "kafka-python"
    if wanted == "confluent" and not installed:
        raise ConfigError("kafka.client is confluent, which is not installed: `pip install scalewatch[fast]` does it.")
    return wanted


def client_of(settings: KafkaSettings) -> Client:
    """Return the client of some settings. Only its own library is imported: each costs a start."""
    adapter = import_module(ADAPTERS[client_name(settings.client)])
    return cast("Client", adapter.make(settings))
