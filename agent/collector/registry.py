"""Avro schemas from a schema registry over REST, fetched in a thread so that other topics are read meanwhile.

Source: "Schema Registry API Reference" in the documentation of Confluent, 7.9, which Karapace, Apicurio and Redpanda follow.
"""

import logging
import ssl
import threading
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

import httpx
import msgspec

from agent.clock import Clock
from agent.config.roles import HttpLogin, SchemaRegistrySettings
from agent.decode.avro import SCHEMA_BYTES_MAX, Schemas
from processors.contracts.errors import ConfigError, InvalidInputError, UnavailableError
from processors.contracts.service import Measures

_LOG = logging.getLogger("scalewatch.registry")
KNOWN_MAX: Final = 1_024
WANTED_MAX: Final = 64  # maximum number of schemas that wait for a look-up; further schemas are requested again later
AGAIN_MAX_S: Final = 30.0
REFUSED_S: Final = 10.0  # a schema that has failed for long is refused for this time, then requested once more
# if a schema gets no answer for this time while other schemas do, its messages are at fault
FAULTY_S: Final = 300.0
ABSENT_S: Final = 300.0  # an absent schema is requested again after this time
ANSWER_BYTES_MAX: Final = 2 * SCHEMA_BYTES_MAX  # a schema is a string inside JSON
MESSAGE_CHARACTERS_MAX: Final = 200  # maximum characters of the registry's message in an error
NOT_FOUND: Final = 404
NO_SCHEMA: Final = 40_403  # error code in the response; a 404 without this code does not come from a registry
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
AVRO: Final = "AVRO"


class OutageLog(Protocol):
    """Logs an outage. Callers report every failure; only some are logged. `over` reports that the service answers again."""

    def failed(self, reason: str) -> None: ...

    def over(self) -> None: ...


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
    """A schema to look up: the time of the next attempt, the number of failed attempts, and `faulty_since_s`.

    `faulty_since_s` is the start of the period in which the registry has answered for other schemas, but not for this one.
    """

    due_s: float
    faulty_since_s: float
    failures: int = 0


class _Absent(msgspec.Struct, frozen=True):
    """The reason why a schema does not exist, and the time when the schema is requested again."""

    error: InvalidInputError
    until_s: float


_ANSWER = msgspec.json.Decoder(_Answer)
_REFUSAL = msgspec.json.Decoder(_Refusal)


class SchemaRegistry(Schemas):
    """Looks up schemas in a registry, or in the configuration, which comes first; thread-safe. `close` ends a running look-up.

    If the look-up of a schema fails, it is repeated at growing intervals, and delays no other schema. If the registry answers for
    no schema at all, it is out of order, and no schema is treated as absent.
    """

    def __init__(self, settings: SchemaRegistrySettings, outage: OutageLog, measures: Measures, clock: Clock) -> None:
        super().__init__(settings.texts)
        self._url, certificate = (settings.url or "").rstrip("/"), (settings.cert_file, settings.key_file)
        self._client = http_client("schema_registry", settings, settings.timeout_s, ACCEPT, certificate)
        self._settings, self._outage, self._measures, self._clock = settings, outage, measures, clock
        self._answers: OrderedDict[int, bytes | _Absent] = OrderedDict()
        self._wanted: dict[int, _Wanted] = {}
        self._changed = threading.Event()  # set if another schema is needed, or if the thread must end
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def text(self, number: int) -> bytes | None:
        """Return a schema; None while it is being looked up. Raise InvalidInputError (``schema``) for an absent schema."""
        configured = self._texts.get(number)
        if configured is not None:
            return configured
        with self._lock:
            answer = self._answers.get(number)
            if answer is not None:
                self._answers.move_to_end(number)
            if isinstance(answer, bytes):
                return answer
            if answer is not None and self._clock.monotonic_s() <= answer.until_s:
                raise InvalidInputError(answer.error.reason, str(answer.error))
            self._want(number)
            return None

    def close(self) -> None:
        """End the look-ups and the thread."""
        with self._lock:
            self._stop.set()
            self._changed.set()
            thread = self._thread
        if thread is not None:
            thread.join(self._settings.timeout_s)
        self._client.close()

    def _want(self, number: int) -> None:
        """Queue the look-up of a schema; the caller holds the lock."""
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
                number = min(self._wanted, key=lambda key: self._wanted[key].due_s)
                wait_s = self._wanted[number].due_s - self._clock.monotonic_s()
            if wait_s > 0:
                self._clock.sleep(wait_s, self._changed)
            else:
                self._look_up_wanted(number)

    def _look_up_wanted(self, number: int) -> None:
        try:
            answer: bytes | _Absent = self._look_up(number)
        except InvalidInputError as error:
            answer = _Absent(error, self._clock.monotonic_s() + ABSENT_S)
        except UnavailableError as error:
            self._measures.add("scalewatch_schema_lookups_total", outcome="failed")
            self._failed(number, error)
            return
        outcome = "found" if isinstance(answer, bytes) else "absent"
        self._measures.add("scalewatch_schema_lookups_total", outcome=outcome)
        self._settle(number, answer)

    def _settle(self, number: int, answer: bytes | _Absent) -> None:
        with self._lock:
            del self._wanted[number]
            self._answers[number] = answer
            self._answers.move_to_end(number)
            while len(self._answers) > KNOWN_MAX:
                self._answers.popitem(last=False)
            all_answered = not any(wanted.failures for wanted in self._wanted.values())
        if all_answered:
            self._outage.over()

    def _failed(self, number: int, error: UnavailableError) -> None:
        """Plan the next attempt after a failed look-up.

        If the look-up has failed for FAULTY_S while the registry answered for other schemas, messages with this schema are
        refused.
        """
        others_answered, now_s = self._is_another_answered(number), self._clock.monotonic_s()
        with self._lock:
            wanted = self._wanted[number]
            wanted.due_s = now_s + min(2.0 ** min(wanted.failures, 10), AGAIN_MAX_S)
            wanted.failures += 1
            if not others_answered:  # an outage also ends a refusal
                wanted.faulty_since_s = now_s
                self._answers.pop(number, None)
            refused_before = number in self._answers
        if not refused_before and now_s - wanted.faulty_since_s < FAULTY_S:
            self._outage.failed(f"{error} Messages with an unknown schema wait in their topics.")
            return
        reason = f"{error} The registry still answers for other schemas."
        if not refused_before:
            advice = "send them again with `scalewatch deadletter replay`"
            _LOG.warning("%s Messages with this schema become dead letters: %s.", reason, advice)
        self._settle(number, _Absent(InvalidInputError("schema", reason), now_s + REFUSED_S))

    def _is_another_answered(self, number: int) -> bool:
        """Ask the registry for the most recently used schema that it knows; return whether it answers."""
        with self._lock:
            answers = reversed(self._answers.items())
            other = next((key for key, answer in answers if isinstance(answer, bytes) and key != number), None)
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
            raise UnavailableError(f"The request for schema {number} failed: {type(error).__name__}.") from None
        if reply.status == NOT_FOUND and _refusal(reply.body).error_code == NO_SCHEMA:
            raise InvalidInputError("schema", f"The schema registry has no schema {number}.")
        if reply.status != httpx.codes.OK:
            raise UnavailableError(
                f"The schema registry answered {_described(reply)} to the request for schema {number}."
            )
        return _schema(number, reply.body)

    def _answer(self, url: str) -> _Reply:
        """Return the response; a body over the limit is cut one byte after the limit."""
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


def http_client(
    section: str,
    login: HttpLogin,
    timeout_s: float,
    accept: str = "application/json",
    certificate: tuple[str | None, str | None] = (None, None),
) -> httpx.Client:
    """Return a client with the login of a section of the configuration, and with the files of its client certificate and key.

    Raise ConfigError if a certificate file cannot be used.
    """
    headers, user = {"accept": accept}, None
    if login.token is not None:
        headers["authorization"] = f"Bearer {login.token.get_secret_value()}"
    if login.username is not None and login.password is not None:
        user = httpx.BasicAuth(login.username, login.password.get_secret_value())
    trusted: bool | ssl.SSLContext = True
    try:
        if login.ca_file is not None or certificate[0] is not None:
            trusted = ssl.create_default_context(cafile=login.ca_file)
            if certificate[0] is not None:
                trusted.load_cert_chain(certificate[0], certificate[1])
    except OSError as error:
        raise ConfigError(f"The certificates of {section} cannot be used: {error.strerror or error}.") from None
    return httpx.Client(
        timeout=timeout_s, headers=headers, auth=user, verify=trusted, trust_env=False,
        follow_redirects=False,  # the headers hold the login, which another host must not receive
    )  # fmt: skip


def _refusal(body: bytes) -> _Refusal:
    try:
        return _REFUSAL.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Refusal()


def _described(reply: _Reply) -> str:
    """Return the status and message of a response that holds no schema, for an error text."""
    if reply.location is not None:
        return f"{reply.status}, a redirect to {reply.location.partition('?')[0][:MESSAGE_CHARACTERS_MAX]!a} that is not followed,"
    message = _refusal(reply.body).message
    return f"{reply.status} ({message[:MESSAGE_CHARACTERS_MAX]!a})" if message else str(reply.status)


def _schema(number: int, body: bytes) -> bytes:
    def refusal(reason: str) -> InvalidInputError:
        return InvalidInputError("schema", f"The schema {number} of the registry {reason}.")

    if len(body) > ANSWER_BYTES_MAX:
        raise refusal(f"is longer than {SCHEMA_BYTES_MAX} bytes")
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = f"The schema registry did not answer with a schema to the request for schema {number}."
        raise UnavailableError(text) from None
    if answer.kind != AVRO:
        raise refusal(f"has the type {answer.kind[:40]!a}, which is not supported")
    if answer.references:
        raise refusal("has references, which are not supported")
    return answer.schema.encode("utf-8", "replace")
