"""Replays: an agent in memory processes files of events, and returns a summary of counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from agent.app import compose
from agent.app.embedded import Embedded, Feed
from agent.app.files import Item, Remarks, ScoreWriter, TelemetryFiles, TimedSamples, in_order, refused, telemetry_files
from agent.clock import SystemClock
from agent.config.tree import Config
from agent.decode.message import DecodeOptions, FileRecord, dead_letter
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import HostMinute, Origin, Refusal, by_reason
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Emission, PowerQuality, Quality

STEP_RECORDS: Final = 2000  # an event adds at most about a hundred ticks, so a step fits easily into the journal
SETTLE_MS: Final = 2 * 3_600_000
NO_APPLICATION: Final = b'"application_id":null'
PROFILE: Final = b'"profile":{'
FAR_FUTURE_MS: Final = 4_000_000_000_000  # files hold history, so no time in a file counts as in the future


class Sink(Protocol):
    """Receives the messages of a replay."""

    def write(self, emissions: Sequence[Emission]) -> None:
        """Write messages in their order."""


class Replay:
    """Feeds files into a new agent in memory, counts records, and passes messages to `sink` and sample scores to `scores`.

    `host` is the host of telemetry records without a host name.
    """

    def __init__(
        self, config: Config, sink: Sink | None = None, scores: ScoreWriter | None = None, host: str | None = None
    ) -> None:
        self._config = config
        self._sink = sink
        self._scores = scores
        self._host = host
        self._files: TelemetryFiles | None = None
        self.remarks = Remarks(config)
        self.counts, self.refusals, self.sent = (Counter[str]() for _ in range(3))
        self.agent = Embedded(config, SystemClock(), self._emitted)
        self._feed = Feed(self.agent)

    def run(
        self, paths: Sequence[str], options: DecodeOptions, on_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Replay the files to their end, then advance time until all runs have settled.

        `on_progress` is called from time to time with the number of records read.
        """
        stepped = 0
        self._files = telemetry_files(self._config, paths, options, self._host, samples=self._scores is not None)
        files = [self.remarks.passing(records) for records in self._files.read(FAR_FUTURE_MS)]
        for item in in_order(files, self._files):
            self._take(item)
            if self._feed.records >= stepped + STEP_RECORDS:
                stepped = self._feed.records
                self.agent.step()
                on_progress(self.remarks.records)
        if self._scores is not None:
            self._scores.end()
        self._feed.finish(SETTLE_MS)
        self.agent.step()
        on_progress(self.remarks.records)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of records read, refused and learned."""
        predictions = self.agent.service.predictions()
        return {
            "schema": "scalewatch.summary/1",
            "records": self.remarks.records,
            **{name: self.counts[name] for name in ("events", "refused", "unidentified")},
            "remarks": self.remarks.messages(),
            "refused_by_reason": dict(sorted(self.refusals.items())),
            "ignored": dict(sorted(self.remarks.ignored.items())),
            "telemetry": self._telemetry(),
            "applications": len(predictions),
            "verdicts": dict(sorted(Counter(prediction.reliability.verdict for prediction in predictions).items())),
            "quality": _quality([prediction.quality for prediction in predictions]),
            "power": {
                "profiles": self.counts["profiles"],
                "applications": sum(prediction.power is not None for prediction in predictions),
                **_quality([prediction.power for prediction in predictions if prediction.power is not None]),
            },
            "emissions": dict(sorted(self.sent.items())),
            "alerts": dict(sorted(Counter(alert.labels["alertname"] for alert in self.agent.service.alerts()).items())),
            "until": rfc3339(max((shard.fold.now_ms for shard in self.agent.learner.shards().values()), default=0)),
        }

    def _telemetry(self) -> dict[str, Any]:
        """Return the number of samples by outcome, of series and of hosts; samples counted as `late` or `ahead` were dropped."""
        if self._files is None:
            return {}
        series = self._files.series()
        hosts = len({(metric.system, metric.host) for metric in series})
        scored = {} if self._scores is None else {"scores": self._scores.lines, "unscored": self._scores.unscored}
        return {**self._files.counts(), "series": len(series), "hosts": hosts, **scored}

    def _emitted(self, emission: Emission) -> None:
        self.sent[emission.kind] += 1
        run = emission.value or b"" if emission.kind == "runs" else b""
        self.counts["unidentified"] += NO_APPLICATION in run
        self.counts["profiles"] += PROFILE in run
        if self._sink is not None:
            self._sink.write([emission])

    def _take(self, item: Item) -> None:
        if isinstance(item, FileRecord):
            self._refuse(item.place, item.format, item.value, refused(item))
            return
        if isinstance(item, TimedSamples):
            self._score(item)
            return
        self.counts["minutes" if isinstance(item.event, HostMinute) else "events"] += 1
        self.remarks.accepts(item.event.system)
        try:
            self._feed.take(item)
        except InvalidInputError as error:
            self._refuse(item.place, "journal", msgspec.json.encode(item.event), [error])

    def _score(self, item: TimedSamples) -> None:
        if self._scores is not None and self._files is not None:
            self._scores.write(item.samples, self._files.index)

    def _refuse(self, place: str, format_name: str, value: bytes, errors: Iterable[InvalidInputError]) -> None:
        name, _, line = place.rpartition(":")
        origin = Origin(name, 0, int(line) if line.isdigit() else 0)
        for refusal in by_reason(errors):
            self.counts["refused"] += refusal.count
            self.refusals[refusal.error.reason] += refusal.count
            self._emitted(compose.encode(dead_letter(Refusal(origin, refusal, format_name, value, 0))))


def _quality(qualities: Sequence[Quality | PowerQuality]) -> dict[str, Any]:
    scored = sum(quality.scored for quality in qualities)
    errors = sorted(quality.median_error for quality in qualities if quality.median_error is not None)
    covered = [(quality.coverage_90, quality.scored) for quality in qualities if quality.coverage_90 is not None]
    runs = sum(count for _, count in covered)
    return {
        "scored": scored,
        "median_of_median_errors": errors[len(errors) // 2] if errors else None,
        "coverage_90": sum(coverage * count for coverage, count in covered) / runs if runs else None,
    }
