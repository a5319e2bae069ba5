"""Who reads: an operator sees everything, a user the detail of their own jobs."""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

NAME_BYTES_MAX: Final = 256
TOKEN_BYTES_MAX: Final = 4096


class Reader(msgspec.Struct, frozen=True):
    """Who asks: `user` as the journal writes users (None: nobody in particular), and whether it is an operator.

    >>> Reader(user="u-1").sees("u-1"), Reader(user="u-1").sees("u-2"), Reader(user=None).sees(None)
    (True, False, False)
    """

    user: str | None = None
    operator: bool = False

    def sees(self, user: str | None) -> bool:
        """Tell whether the detail of a job of this user may be shown."""
        return self.operator or (user is not None and user == self.user)


EVERYBODY: Final = Reader(operator=True)  # where nothing limits access
STRANGER: Final = Reader()
# who asks in this thread or task, for what is handed no request; where that was never said, a stranger
PRESENT: Final[ContextVar[Reader]] = ContextVar("reader", default=STRANGER)


def reader(request: Request) -> Reader:
    """Return who asks; whoever comes through an open port is an operator.

    >>> reader(Request({"type": "http"})).operator
    True
    """
    found: Reader = request.scope.get("scalewatch.reader", EVERYBODY)
    return found


class Token(msgspec.Struct, frozen=True):
    """A bearer token that is taken: its digest, and who shows it. The token itself is not kept.

    >>> Token.of("0123456789abcdef", Reader()).digest.hex()[:8]
    '9f9f5111'
    """

    digest: bytes
    reader: Reader

    @classmethod
    def of(cls, token: str, reader: Reader) -> "Token":
        """Return the entry of a token."""
        return cls(_digest(token.encode()), reader)


class Access(msgspec.Struct, frozen=True):
    """Tells from a request who asks: by a bearer token, or by the header of a proxy that is trusted.

    `written` turns a user name into the journal's, None where the journal names nobody. What a trusted proxy says goes
    before a token, which the proxy may have passed on from its own log-in.

    >>> access = Access(tokens=(Token.of("0123456789abcdef", Reader(operator=True)),))
    >>> scope = {"type": "http", "headers": [(b"authorization", b"Bearer 0123456789abcdef")], "client": ("10.0.0.1", 1)}
    >>> access.reader_of(scope)
    Reader(user=None, operator=True)
    >>> access.reader_of({"type": "http", "headers": []}) is None
    True
    """

    tokens: Sequence[Token] = ()
    user_header: str | None = None
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    operators: frozenset[str] = frozenset()
    written: Callable[[str], str | None] = str
    metrics_open: bool = False

    def reader_of(self, scope: Scope) -> Reader | None:
        """Return who asks; None where that is not known."""
        headers = Headers(scope=scope)
        name = self._named(headers, scope.get("client"))
        if name is not None:
            return Reader(user=self.written(name), operator=name in self.operators)
        shown = _bearer(headers)
        return None if shown is None else self._shown(shown)

    def _named(self, headers: Headers, client: tuple[str, int] | None) -> str | None:
        """Return the user name that a trusted proxy tells; one that comes twice was not told by the proxy alone."""
        if self.user_header is None or not self._trusted(client):
            return None
        told = headers.getlist(self.user_header)
        name = told[0].strip() if len(told) == 1 else ""
        return _text(name) if 0 < len(name) <= NAME_BYTES_MAX else None

    def _trusted(self, client: tuple[str, int] | None) -> bool:
        try:
            address = ip_address(client[0].partition("%")[0]) if client else None
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return address is not None and any(address in network for network in self.trusted_proxies)

    def _shown(self, token: bytes) -> Reader | None:
        """Return whose token it is; every one is compared, so that the time taken tells nothing."""
        digest, found = _digest(token), None
        for entry in self.tokens:
            if hmac.compare_digest(digest, entry.digest):
                found = entry.reader
        return found


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _bearer(headers: Headers) -> bytes | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    shown = token.strip().encode("latin-1")
    return shown if scheme.lower() == "bearer" and 0 < len(shown) <= TOKEN_BYTES_MAX else None


def _text(name: str) -> str:
    """Return the name in a header as text: headers are bytes, and proxies write UTF-8."""
    raw = name.encode("latin-1")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return name
