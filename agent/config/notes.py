"""What is allowed and still worth a thought before an agent runs with it."""

from collections.abc import Iterator
from ipaddress import ip_network

from agent.config.problems import Path
from agent.config.tree import Config

LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    yield from _readers(config)
    if config.kafka.security.protocol == "sasl_plaintext":
        yield ("kafka", "security", "protocol"), "is sasl_plaintext: user name and data travel unencrypted."


def _readers(config: Config) -> Iterator[tuple[Path, str]]:
    http, access = config.http, config.http.access
    if http.host not in LOOPBACK and not access.limits:
        yield (
            ("http", "host"),
            f"is {http.host}: whoever reaches it can read everything; http.access asks who is there.",
        )
    elif http.host not in LOOPBACK:
        yield ("http", "host"), f"is {http.host}: tokens and pages travel unencrypted; put a proxy with TLS in front."
    if not access.limits:
        return
    path = ("http", "access")
    if config.privacy.users == "drop":
        yield ("privacy", "users"), "is drop: no job has an owner, so only operators see jobs in detail."
    if not access.operators and not any(token.operator for token in access.tokens):
        yield path, "names no operator: nobody sees everybody's jobs, dead letters and why a role is not ready."
    if access.metrics == "open" and config.metrics.hosts_max:
        yield (*path, "metrics"), "is open: whoever reaches /metrics sees what hosts measure."
    if access.user_header is not None:
        for index, text in enumerate(access.trusted_proxies):
            network = ip_network(text, strict=False)
            if network.prefixlen == 0:
                yield (*path, "trusted_proxies", index), "is everywhere: whoever reaches the port can say who they are."
            elif network.is_loopback:
                yield (
                    (*path, "trusted_proxies", index),
                    "is this machine: whoever can log in to it can say who they are.",
                )
