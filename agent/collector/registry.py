"""Schemas of Avro from a registry by its REST interface: looked up in a thread, so that what needs none of them goes on.

Source: "Schema Registry API Reference" in the documentation of Confluent, 7.9, which Karapace, Apicurio and Redpanda follow.
"""

import logging
import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import httpx
import msgspec

from agent.clock import Clock
from agent.config.schemas import SchemaRegistrySettings
from agent.decode.avro.schema import SCHEMA_BYTES_MAX
from processors.contracts.errors import ConfigError, InvalidInputError, UnavailableError
from processors.contracts.service import Measures

_LOG = logging.getLogger("scalewatch.registry")
KNOWN_MAX: Final = 1_024
WANTED_MAX: Final = 64  # that wait to be looked up; others are asked for again
AGAIN_MAX_S: Final = 30.0
REFUSED_S: Final = (
    10.0  # after which a schema that failed for long is asked for once more, before its next message is refused
)
FAULTY_S: Final = 300.0  # a schema that is not answered for so long, while others are, is its messages' fault
ABSENT_S: Final = 300.0  # after which one that was not there is looked up again
ANSWER_BYTES_MAX: Final = 2 * SCHEMA_BYTES_MAX  # as a text within JSON
MESSAGE_CHARACTERS_MAX: Final = 200  # characters of the registry's own words in an error
NOT_FOUND: Final = 404
NO_SCHEMA: Final = 40_403  # the error's code in the answer; a 404 without it is of something else than a registry
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
AVRO: Final = "AVRO"


class Outage(Protocol):
    """Tells people of something that is away, in few lines."""

    def failed(self, reason: str) -> None:
        """Take note of a failure."""

    def over(self) -> None:
        """Take note that it is there."""


class _Answer(msgspec.Struct):
    schema: str
    kind: str = msgspec.field(name="schemaType", default=AVRO)
    references: list[msgspec.Raw] = []


class _Refusal(msgspec.Struct):
    error_code: int = 0
    message: str = ""


class _Reply(NamedTuple):
    status: int
    location: str | None
    body: bytes


class _Wanted(msgspec.Struct):
    """A schema to look up: when next, how often that failed, and since when it failed while others were answered."""

    due_s: float
    faulty_since_s: float
    failures: int = 0


class _Absent(msgspec.Struct, frozen=True):
    """Why there is no schema of a number, and until when that is believed."""

    error: InvalidInputError
    until_s: float


_ANSWER = msgspec.json.Decoder(_Answer)
_REFUSAL = msgspec.json.Decoder(_Refusal)


class SchemaRegistry:
    """Implements `agent.decode.avro.wire.Schemas`; safe from any thread. `close` ends what is under way.

    Schemas of the configuration go first. A schema that is not answered is asked for again, later and later, and delays no other one.
    As long as the registry answers for no schema at all, that is an outage, in which no schema is taken for absent.
    """

    def __init__(self, settings: SchemaRegistrySettings, outage: Outage, measures: Measures, clock: Clock) -> None:
        self._url, self._client = (settings.url or "").rstrip("/"), client_of(settings)
        self._settings, self._outage, self._measures, self._clock = settings, outage, measures, clock
        self._configured: Mapping[int, bytes] = settings.texts
        self._found: OrderedDict[int, bytes | _Absent] = OrderedDict()
        self._wanted: dict[int, _Wanted] = {}
        self._changed = threading.Event()  # another schema is wanted, or the thread has to end
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def text(self, number: int) -> bytes | None:
        """Return a schema; None while it is being looked up. Raises InvalidInputError (``schema``) where there is none."""
        known = self._configured.get(number)
        if known is not None:
            return known
        with self._lock:
            found = self._found.get(number)
            if found is None:
                self._want(number)
                return None
            self._found.move_to_end(number)
            if not isinstance(found, _Absent):
                return found
            if self._clock.monotonic_s() <= found.until_s:
                raise InvalidInputError(found.error.reason, str(found.error))
            self._want(number)
            return None

    def close(self) -> None:
        """Ask no more, and end the thread."""
        with self._lock:
            self._stop.set()
            self._changed.set()
            thread = self._thread
        if thread is not None:
            thread.join(self._settings.timeout_s)
        self._client.close()

    def _want(self, number: int) -> None:
        """Have a schema looked up; the lock is held."""
        if number not in self._wanted and len(self._wanted) < WANTED_MAX:
            now_s = self._clock.monotonic_s()
            self._wanted[number] = _Wanted(due_s=now_s, faulty_since_s=now_s)
            self._changed.set()
        if self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._work, name="schemas", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._stop.is_set() or not self._wanted:
                    self._thread = None
                    return
                self._changed.clear()
                number = min(self._wanted, key=lambda one: self._wanted[one].due_s)
                wait_s = self._wanted[number].due_s - self._clock.monotonic_s()
            if wait_s > 0:
                self._clock.sleep(wait_s, self._changed)
            else:
                self._look_up_wanted(number)

    def _look_up_wanted(self, number: int) -> None:
        try:
            found: bytes | _Absent = self._look_up(number)
        except InvalidInputError as error:
            found = _Absent(error, self._clock.monotonic_s() + ABSENT_S)
        except UnavailableError as error:
            self._measures.add("scalewatch_schema_lookups_total", outcome="failed")
            self._failed(number, error)
            return
        outcome = "found" if isinstance(found, bytes) else "absent"
        self._measures.add("scalewatch_schema_lookups_total", outcome=outcome)
        self._settle(number, found)

    def _settle(self, number: int, found: bytes | _Absent) -> None:
        with self._lock:
            del self._wanted[number]
            self._found[number] = found
            self._found.move_to_end(number)
            while len(self._found) > KNOWN_MAX:
                self._found.popitem(last=False)
            all_answered = not any(wanted.failures for wanted in self._wanted.values())
        if all_answered:
            self._outage.over()

    def _failed(self, number: int, error: UnavailableError) -> None:
        """Plan the next attempt; refuse the schema once it has failed for FAULTY_S while others were answered."""
        others_answered, now_s = self._is_another_answered(number), self._clock.monotonic_s()
        with self._lock:
            wanted = self._wanted[number]
            wanted.due_s = now_s + min(2.0 ** min(wanted.failures, 10), AGAIN_MAX_S)
            wanted.failures += 1
            if not others_answered:  # an outage, in which a refusal ends, too
                wanted.faulty_since_s = now_s
                self._found.pop(number, None)
            refused_before = number in self._found
        if not refused_before and now_s - wanted.faulty_since_s < FAULTY_S:
            self._outage.failed(f"{error} Messages whose schema is not known wait in their topics.")
            return
        why = f"{error} It still answers for other schemas."
        if not refused_before:
            _LOG.warning(
                "%s Messages with this schema become dead letters: send them again with `scalewatch deadletter replay`.",
                why,
            )
        self._settle(number, _Absent(InvalidInputError("schema", why), now_s + REFUSED_S))

    def _is_another_answered(self, number: int) -> bool:
        """Return whether the registry still answers for a schema that it gave before, the one used last."""
        with self._lock:
            texts = (one for one, found in reversed(self._found.items()) if isinstance(found, bytes) and one != number)
            other = next(texts, None)
        if other is None:
            return False
        try:
            self._look_up(other)
        except InvalidInputError:
            return True
        except UnavailableError:
            return False
        return True

    def _look_up(self, number: int) -> bytes:
        try:
            reply = self._answer(f"{self._url}/schemas/ids/{number}")
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise UnavailableError(f"Asking for the schema {number} failed: {type(error).__name__}.") from None
        if reply.status == NOT_FOUND and _refusal(reply.body).error_code == NO_SCHEMA:
            raise InvalidInputError("schema", f"The schema registry has no schema {number}.")
        if reply.status != httpx.codes.OK:
            raise UnavailableError(
                f"The schema registry answered {_described(reply)} when asked for the schema {number}."
            )
        return _schema(number, reply.body)

    def _answer(self, url: str) -> _Reply:
        """Return the answer; its body is cut one byte after the limit."""
        deadline_s, body = self._clock.monotonic_s() + self._settings.timeout_s, b""
        with self._client.stream("GET", url) as response:
            for part in response.iter_bytes():
                body += part
                if len(body) > ANSWER_BYTES_MAX or self._clock.monotonic_s() > deadline_s:
                    break
            else:
                return _Reply(response.status_code, response.headers.get("location"), body)
        if len(body) <= ANSWER_BYTES_MAX:
            raise httpx.ReadTimeout("The answer takes too long.")
        return _Reply(response.status_code, None, body[: ANSWER_BYTES_MAX + 1])


def client_of(settings: SchemaRegistrySettings) -> httpx.Client:
    """Return a client that logs in as configured; ConfigError where a file of certificates cannot be used."""
    headers = {"accept": ACCEPT}
    if settings.token is not None:
        headers["authorization"] = f"Bearer {settings.token.get_secret_value()}"
    login = None
    if settings.username is not None and settings.password is not None:
        login = httpx.BasicAuth(settings.username, settings.password.get_secret_value())
    return httpx.Client(
        timeout=settings.timeout_s, headers=headers, auth=login, verify=_trusted(settings), trust_env=False,
        follow_redirects=False,  # the headers hold the log-in, which another host must not get
    )  # fmt: skip


def _trusted(settings: SchemaRegistrySettings) -> bool | ssl.SSLContext:
    if settings.ca_file is None and settings.cert_file is None:
        return True
    try:
        trusted = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            trusted.load_cert_chain(settings.cert_file, settings.key_file)
    except OSError as error:
        raise ConfigError(f"The certificates of schema_registry cannot be used: {error.strerror or error}.") from None
    return trusted


def _refusal(body: bytes) -> _Refusal:
    try:
        return _REFUSAL.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Refusal()


def _described(reply: _Reply) -> str:
    """Return status and words of an answer that is no schema."""
    if reply.location is not None:
        return f"{reply.status}, a redirect to {reply.location.partition('?')[0][:MESSAGE_CHARACTERS_MAX]!a} that is not followed,"
    message = _refusal(reply.body).message
    return f"{reply.status} ({message[:MESSAGE_CHARACTERS_MAX]!a})" if message else str(reply.status)


def _schema(number: int, body: bytes) -> bytes:
    if len(body) > ANSWER_BYTES_MAX:
        raise InvalidInputError(
            "schema", f"The schema {number} of the registry is longer than {SCHEMA_BYTES_MAX} bytes."
        )
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnavailableError(
            f"The schema registry did not answer with a schema when asked for the schema {number}."
        ) from None
    if answer.kind != AVRO:
        kind = ascii(answer.kind[:40])
        raise InvalidInputError(
            "schema", f"The schema {number} of the registry is of the type {kind}, which is not read."
        )
    if answer.references:
        raise InvalidInputError("schema", f"The schema {number} of the registry refers to others, which is not read.")
    return answer.schema.encode("utf-8", "replace")
