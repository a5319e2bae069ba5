"""The end of a client of confluent-kafka, which may wait for a broker for ever."""

from threading import Thread


def end_unattended(owner: object, attribute: str) -> None:
    """Let a thread be the last to refer to what an attribute holds: the library ends it then, and nobody waits for that."""
    held = [owner.__dict__.pop(attribute)]
    Thread(target=held.clear, name="ending a client", daemon=True).start()
