"""From the configuration to who may read what."""

from ipaddress import ip_network

from agent.app.privacy import user_names
from agent.config.access import TokenSettings
from agent.config.tree import Config
from agent.http.access import Access, Reader, Token


def access(config: Config) -> Access | None:
    """Return who may read what; None where everybody reads everything.

    >>> access(Config()) is None
    True
    """
    given, written = config.http.access, user_names(config.privacy)
    if not given.limits:
        return None
    operators = frozenset(given.operators)

    def token(entry: TokenSettings) -> Token:
        user = None if entry.user is None else written(entry.user)
        return Token.of(entry.token.get_secret_value(), Reader(user, entry.operator or entry.user in operators))

    return Access(
        tokens=tuple(map(token, given.tokens)),
        user_header=given.user_header,
        trusted_proxies=tuple(ip_network(text, strict=False) for text in given.trusted_proxies),
        operators=operators,
        written=written,
        metrics_open=given.metrics == "open",
    )
