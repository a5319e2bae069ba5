"""Settings of who may read what over HTTP, and what no single one of them can show to be wrong."""

from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr

from agent.config.problems import Path
from agent.contracts.settings import Settings

TOKEN_CHARACTERS_MIN: Final = 16
UserName = Annotated[str, Field(pattern=r"^\S{1,256}$")]


class TokenSettings(Settings):
    """Someone who shows a bearer token: a person, an operator, or a program such as Prometheus.

    >>> TokenSettings(name="prometheus", token="0123456789abcdef").token
    SecretStr('**********')
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,64}$")] = Field(description="what to call it here")
    token: SecretStr = Field(description="the token, at least 16 characters")
    user: UserName | None = Field(
        default=None, description="whose jobs it shows in detail: a user name of the scheduler; none: nobody's"
    )
    operator: bool = Field(
        default=False, description="whether it shows everybody's jobs, dead letters and why a role is not ready"
    )


class AccessSettings(Settings):
    """Who may read what over HTTP. Without tokens and without a header everybody who reaches the port reads everything.

    >>> AccessSettings().limits, AccessSettings(user_header="X-Forwarded-User").limits
    (False, True)
    """

    tokens: tuple[TokenSettings, ...] = Field(
        default=(), max_length=1000, description="tokens that are taken (Authorization: Bearer)"
    )
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = Field(
        default=None,
        description="header in which a reverse proxy with a log-in tells the user name, such as X-Forwarded-User",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=("127.0.0.0/8", "::1"),
        max_length=100,
        description="addresses and networks of the proxies whose header is believed; from all others it is ignored",
    )
    operators: tuple[UserName, ...] = Field(
        default=(),
        max_length=1000,
        description="user names that see everybody's jobs, dead letters and why a role is not ready",
    )
    metrics: Literal["token", "open"] = Field(
        default="token", description="who reads /metrics: whoever may read the pages, or everybody"
    )

    @property
    def limits(self) -> bool:
        """Whether anybody is kept from anything."""
        return bool(self.tokens) or self.user_header is not None


def access_faults(settings: AccessSettings) -> Iterator[tuple[Path, str]]:
    """Yield the path of a key below the section and what is wrong with it.

    >>> list(access_faults(AccessSettings(user_header="X-Forwarded-User", trusted_proxies=("10.0.0.300",))))
    [(('trusted_proxies', 0), "'10.0.0.300' is no address and no network, such as 10.1.2.3 or 10.1.0.0/16.")]
    """
    for index, text in enumerate(settings.trusted_proxies):
        if not _network(text):
            yield (
                ("trusted_proxies", index),
                f"{text[:64]!r} is no address and no network, such as 10.1.2.3 or 10.1.0.0/16.",
            )
    if settings.user_header is not None and not settings.trusted_proxies:
        yield ("trusted_proxies",), "is empty: nobody's user_header would be believed."
    if settings.operators and not settings.limits:
        yield ("operators",), "has no use without tokens or a user_header: everybody reads everything."
    if (settings.user_header or "").lower() in ("authorization", "cookie", "host"):
        yield ("user_header",), f"cannot be {settings.user_header}, which holds no user name."
    yield from _token_faults(settings)


def _token_faults(settings: AccessSettings) -> Iterator[tuple[Path, str]]:
    names = Counter(token.name for token in settings.tokens)
    secrets = Counter(token.token for token in settings.tokens)
    for index, token in enumerate(settings.tokens):
        path, secret = ("tokens", index), token.token.get_secret_value()
        if names[token.name] > 1:
            yield (*path, "name"), f"{token.name!r} is the name of more than one token."
        if secret.startswith(("${env:", "{file:")) or not secret:
            continue  # a reference that was not looked up, or one that was told already
        if len(secret) < TOKEN_CHARACTERS_MIN:
            yield (*path, "token"), f"is shorter than {TOKEN_CHARACTERS_MIN} characters: it could be guessed."
        elif not (secret.isascii() and secret.isprintable() and " " not in secret):
            yield (
                (*path, "token"),
                "has to be of printable ASCII characters without spaces: a header cannot carry others.",
            )
        if secrets[token.token] > 1:
            yield (*path, "token"), "is the token of more than one entry."


def _network(text: str) -> bool:
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
