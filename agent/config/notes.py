"""What is allowed and still worth a thought before an agent runs with it."""

from collections.abc import Iterator

from agent.config.problems import Path
from agent.config.tree import Config


def notes(config: Config) -> Iterator[tuple[Path, str]]:
    """Yield the path of a key and a sentence about its value.

    >>> [path for path, _ in notes(Config())]
    [('privacy', 'salt'), ('topics', 'replication')]
    """
    if config.privacy.users == "hash" and not config.privacy.salt.get_secret_value():
        yield ("privacy", "salt"), "is empty: who knows the user names can tell whose hash is whose."
    if config.privacy.users == "plain":
        yield ("privacy", "users"), "is plain: outputs name people."
    if config.topics.replication == 1:
        yield ("topics", "replication"), "is 1: a topic that the agent creates is lost with its one broker."
    if config.http.host not in ("127.0.0.1", "::1", "localhost"):
        yield ("http", "host"), f"is {config.http.host}: whoever reaches it can read, for there is no log-in."
    if config.kafka.security.protocol == "sasl_plaintext":
        yield ("kafka", "security", "protocol"), "is sasl_plaintext: user name and data travel unencrypted."
