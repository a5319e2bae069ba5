"""Schemas of Avro from a registry by its REST interface: looked up in a thread, so that what needs none of them goes on.

Source: "Schema Registry API Reference" in the documentation of Confluent, 7.9, which Karapace, Apicurio and Redpanda follow.
"""

import ssl
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Protocol

import httpx
import msgspec
from tenacity import Retrying, retry_if_exception_type, stop_when_event_set, wait_exponential_jitter

from agent.clock import Clock
from agent.config.schemas import SchemaRegistrySettings
from agent.decode.avro.schema import SCHEMA_BYTES_MAX
from processors.contracts.errors import ConfigError, InvalidInputError, UnavailableError
from processors.contracts.service import Measures

KNOWN_MAX: Final = 1_024
WANTED_MAX: Final = 64  # that wait to be looked up; others are asked for again
AGAIN_MAX_S: Final = 30.0
ABSENT_S: Final = 300.0  # after which one that was not there is looked up again
ANSWER_BYTES_MAX: Final = 2 * SCHEMA_BYTES_MAX  # as a text within JSON
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


class _Absent(msgspec.Struct, frozen=True):
    """Why there is no schema of a number, and until when that is believed."""

    error: InvalidInputError
    until_s: float


_ANSWER = msgspec.json.Decoder(_Answer)
_REFUSAL = msgspec.json.Decoder(_Refusal)


class SchemaRegistry:
    """Implements `agent.decode.avro.wire.Schemas`; safe from any thread. `close` ends what is under way.

    Schemas of the configuration go first. While the registry cannot be reached it is asked again and again, later and later, and what is
    not known stays so: nothing is taken for absent unless the registry has said it.
    """

    def __init__(self, settings: SchemaRegistrySettings, outage: Outage, measures: Measures, clock: Clock) -> None:
        self._url, self._client = (settings.url or "").rstrip("/"), client_of(settings)
        self._settings, self._outage, self._measures, self._clock = settings, outage, measures, clock
        self._configured: Mapping[int, bytes] = settings.texts
        self._found: OrderedDict[int, bytes | _Absent] = OrderedDict()
        self._wanted: OrderedDict[int, None] = OrderedDict()
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
            if isinstance(found, _Absent):
                if self._clock.monotonic_s() > found.until_s:
                    self._want(number)
                raise InvalidInputError(found.error.reason, str(found.error))
            return found

    def close(self) -> None:
        """Ask no more, and end the thread."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join(self._settings.timeout_s)
        self._client.close()

    def _want(self, number: int) -> None:
        """Have a schema looked up; the lock is held."""
        if len(self._wanted) < WANTED_MAX:
            self._wanted.setdefault(number)
        if self._thread is None and not self._stop.is_set():
            self._thread = threading.Thread(target=self._work, name="schemas", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
            attempts = Retrying(
                retry=retry_if_exception_type(UnavailableError),
                wait=wait_exponential_jitter(initial=1, max=AGAIN_MAX_S),
                stop=stop_when_event_set(self._stop),
                sleep=self._sleep,
                retry_error_callback=lambda _state: None,
            )
            attempts(self._look_up_next)

    def _sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds, self._stop)

    def _look_up_next(self) -> None:
        """Look up the schema that was asked for first; where that fails, the next attempt is for the next one."""
        with self._lock:
            number = next(iter(self._wanted))
        try:
            found: bytes | _Absent = self._look_up(number)
        except InvalidInputError as error:
            found = _Absent(error, self._clock.monotonic_s() + ABSENT_S)
        except UnavailableError as error:
            self._measures.add("scalewatch_schema_lookups_total", outcome="failed")
            self._outage.failed(f"{error} What needs schemas that are not known is not read meanwhile.")
            with self._lock:
                self._wanted.move_to_end(number)
            raise
        self._outage.over()
        outcome = "found" if isinstance(found, bytes) else "absent"
        self._measures.add("scalewatch_schema_lookups_total", outcome=outcome)
        with self._lock:
            del self._wanted[number]
            self._found[number] = found
            self._found.move_to_end(number)
            while len(self._found) > KNOWN_MAX:
                self._found.popitem(last=False)

    def _look_up(self, number: int) -> bytes:
        try:
            status, body = self._answer(f"{self._url}/schemas/ids/{number}")
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError) as error:
            raise UnavailableError(f"Asking for the schema {number} failed: {type(error).__name__}.") from None
        if status == NOT_FOUND and _is_absent(body):
            raise InvalidInputError("schema", f"The schema registry has no schema {number}.")
        if status != httpx.codes.OK:
            raise UnavailableError(f"It answered {status} when asked for the schema {number}.")
        return _schema(number, body)

    def _answer(self, url: str) -> tuple[int, bytes]:
        """Return the status and what was answered, one byte too many of an answer that is too long."""
        deadline_s, body = self._clock.monotonic_s() + self._settings.timeout_s, b""
        with self._client.stream("GET", url) as response:
            for part in response.iter_bytes():
                body += part
                if len(body) > ANSWER_BYTES_MAX or self._clock.monotonic_s() > deadline_s:
                    break
            else:
                return response.status_code, body
        if len(body) <= ANSWER_BYTES_MAX:
            raise httpx.ReadTimeout("The answer takes too long.")
        return response.status_code, body[: ANSWER_BYTES_MAX + 1]


def client_of(settings: SchemaRegistrySettings) -> httpx.Client:
    """Return a client that logs in as configured; ConfigError where a file of certificates cannot be used."""
    headers = {"accept": ACCEPT}
    if settings.token is not None:
        headers["authorization"] = f"Bearer {settings.token.get_secret_value()}"
    login = None
    if settings.username is not None and settings.password is not None:
        login = httpx.BasicAuth(settings.username, settings.password.get_secret_value())
    return httpx.Client(
        timeout=settings.timeout_s, headers=headers, auth=login, verify=_trusted(settings), trust_env=False
    )


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


def _is_absent(body: bytes) -> bool:
    try:
        return _REFUSAL.decode(body).error_code == NO_SCHEMA
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _schema(number: int, body: bytes) -> bytes:
    if len(body) > ANSWER_BYTES_MAX:
        raise InvalidInputError(
            "schema", f"The schema {number} of the registry is longer than {SCHEMA_BYTES_MAX} bytes."
        )
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnavailableError(f"What it answered when asked for the schema {number} is no schema.") from None
    if answer.kind != AVRO:
        kind = ascii(answer.kind[:40])
        raise InvalidInputError(
            "schema", f"The schema {number} of the registry is of the type {kind}, which is not read."
        )
    if answer.references:
        raise InvalidInputError("schema", f"The schema {number} of the registry refers to others, which is not read.")
    return answer.schema.encode("utf-8", "replace")
