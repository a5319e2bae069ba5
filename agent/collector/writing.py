"""What the collector writes: events and minutes of hosts into the journal, dead letters, and the time."""

import msgspec

from agent.collector.meter import Meter
from agent.collector.routes import Refusal, Routes, Source
from agent.contracts.decoding import Decoded
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import HostMinute, JobEvent, JournalRecord, Origin, Tick, encode_record
from agent.contracts.log import Producer


class Writing:
    """Sends, and knows whether anything is not yet acknowledged.

    >>> from agent.app import compose
    >>> from agent.config.tree import Config
    >>> from agent.log.memory import MemoryLog
    >>> from agent.topics import own_topics
    >>> log, config = MemoryLog(), Config()
    >>> _ = log.create(own_topics(config))
    >>> writing = Writing(log.producer(), compose.routes(config), Meter(compose.metrics(), lambda: 0.0))
    >>> writing.tick(now_ms=60_500)
    >>> log.read("scalewatch.journal", 0, lambda batch: print(batch.values[0]))
    b'{"event":{"type":"tick","system":"","time_ms":60000},"origin":null}'
    1
    """

    def __init__(self, producer: Producer, routes: Routes, meter: Meter) -> None:
        self._producer = producer
        self._routes = routes
        self._meter = meter
        self._last_tick_ms: int | None = None
        self.sent = False

    def message(self, decoded: Decoded, source: Source, origin: Origin, value: bytes | None, timestamp_ms: int) -> None:
        """Write what one message yielded: its events, and its refused parts as dead letters."""
        events: list[JobEvent] = []
        for event in decoded.events:
            try:
                self._event(event, origin, timestamp_ms)
            except InvalidInputError as error:
                decoded.rejects.append(error)
            else:
                events.append(event)
        decoded.events = events
        for index, refusal in enumerate(decoded.rejects):
            self._letter(Refusal(origin, index, source.format, value, refusal, timestamp_ms))
        self._meter.decoded(source.format, decoded)

    def minute(self, event: HostMinute, now_ms: int) -> None:
        """Write a minute of a host whose system is accepted."""
        partition = self._routes.partition(event.system)
        if partition is not None:
            event = self._routes.privacy(event)
            value = encode_record(JournalRecord(event=event))
            while len(value) > self._routes.record_bytes_max:  # a host with a thousand disks; better some than none
                some = dict(list(event.resources.items())[: len(event.resources) // 2])
                event = msgspec.structs.replace(event, resources=some)
                value = encode_record(JournalRecord(event=event))
                self._meter.bound("host_minute_bytes_max")
            self._send(self._routes.journal_topic, value, None, partition, now_ms)
            self._meter.minute()

    def tick(self, now_ms: int) -> None:
        """Write the tick that is due."""
        tick_ms = now_ms - now_ms % self._routes.tick_ms
        if self._last_tick_ms is not None and tick_ms <= self._last_tick_ms:
            return
        self._last_tick_ms = tick_ms
        value = encode_record(JournalRecord(event=Tick(system="", time_ms=tick_ms)))
        for partition in range(self._routes.journal_partitions):
            self._send(self._routes.journal_topic, value, None, partition, tick_ms)

    def flush(self) -> None:
        """Wait until every write is acknowledged. Raises UnavailableError."""
        if self.sent:
            self._producer.flush(self._routes.flush_timeout_s)
            self.sent = False

    def close(self) -> None:
        """Free the connections."""
        self._producer.close()

    def _event(self, event: JobEvent, origin: Origin, timestamp_ms: int) -> None:
        partition = self._routes.partition(event.system)
        if partition is None:
            raise unknown_system(event.system)
        value = encode_record(JournalRecord(event=self._routes.privacy(event), origin=origin))
        if len(value) > self._routes.record_bytes_max:
            detail = f"The event needs {len(value)} bytes; {self._routes.record_bytes_max} are allowed."
            raise InvalidInputError("too-large", detail)
        self._send(self._routes.journal_topic, value, None, partition, timestamp_ms)

    def _letter(self, refusal: Refusal) -> None:
        letter = self._routes.dead_letter(refusal)
        value = msgspec.json.encode(letter)
        self._send(self._routes.deadletter_topic, value, letter.id.encode(), None, refusal.timestamp_ms)
        self._meter.refused(refusal.error.reason)

    def _send(self, topic: str, value: bytes, key: bytes | None, partition: int | None, timestamp_ms: int) -> None:
        self.sent = True
        self._producer.send(topic, value, key, partition, timestamp_ms)


def unknown_system(system: str) -> InvalidInputError:
    """Return the refusal of what is of a system that is not accepted.

    >>> unknown_system("other").reason
    'unknown-system'
    """
    return InvalidInputError("unknown-system", f"The system {system[:40]!r} is not listed in the configuration.")
