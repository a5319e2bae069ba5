"""The product, asked as its users ask: events into a whole shard, as `scalewatch predict --events` feeds it, answers out.

Each world is a centre of its own. What is answered is what would be published; no class of a model is touched.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from agent.app import compose
from agent.app.embedded import Feed
from agent.app.files import ReportedEvent, reported_ms
from agent.app.replay import FAR_FUTURE_MS, SETTLE_MS
from agent.config.tree import Config
from agent.decode.native import native_decoder
from processors.contracts.events import Evidence, HostMinute, JobEvent, JournalRecord, Origin, PredictionRequested, Tick
from processors.contracts.outputs import AnswerPoint
from processors.pipeline.state import CoefficientsOf, shipped
from tests.quality.worlds import Request, Run, World

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
EVERY: Final = timedelta(minutes=1)


class Centre:
    """A shard and the passing of its time; a journal to what feeds it."""

    def __init__(self, coefficients_of: CoefficientsOf = shipped, config: Config | None = None) -> None:
        config = config or Config()
        self._shard = compose.make_shard(config, coefficients_of)
        self._privacy = compose.privacy(config.privacy)
        self._decode = native_decoder(compose.file_options(config, "UTC"))
        self._feed = Feed(self)

    def write(self, event: JobEvent | HostMinute, origin: Origin) -> None:
        self._shard.fold(JournalRecord(event=self._privacy(event), origin=origin))

    def tick(self, time_ms: int) -> None:
        self._shard.fold(JournalRecord(event=Tick(system="", time_ms=time_ms)))

    def learn(self, messages: Iterable[bytes]) -> "Centre":
        """Take native events, then let time pass until everything has settled."""
        for message in messages:
            for event in self._decode(message, FAR_FUTURE_MS).events:
                self._feed.take(ReportedEvent(reported_ms(event), event, ""))
        self._feed.finish(SETTLE_MS)
        return self

    def faults(self) -> dict[str, int]:
        """Return what failed inside, by processor: a shard survives it, a measurement must not."""
        return {name: count for (kind, name), count in self._shard.tallied().items() if kind == "fault"}

    def answer(self, application: str, system: str, given: str, unit: str, n: float) -> AnswerPoint | None:
        """Return what is answered of one size; None where nothing is known."""
        evidence = Evidence(application=application, input=given or None)
        return self.requested(PredictionRequested(system, f"{n}", (float(n),), evidence, unit))

    def requested(self, request: PredictionRequested) -> AnswerPoint | None:
        """Return what is answered of the first size of a request; None where nothing is known."""
        answer = self._shard.answer(request)
        return answer.points[0] if answer.points else None


def answers(world: World, coefficients_of: CoefficientsOf = shipped) -> Iterator[tuple[Request, AnswerPoint | None]]:
    """Yield what is answered to each request of a world."""
    began_s = time.monotonic()
    centre = Centre(coefficients_of).learn(messages(world))
    for each in world.requests:
        curve = each.curve
        yield each, centre.answer(curve.application, curve.system, curve.input, curve.unit, each.n)
    if faults := centre.faults():
        raise RuntimeError(f"The product failed in {world.name}: {faults}.")
    runs = len(world.earlier) + len(world.later)
    took_s = time.monotonic() - began_s
    sys.stderr.write(f"{world.name}: {runs} runs, {len(world.requests)} requests, {took_s:.0f} s\n")


def messages(world: World) -> list[bytes]:
    """Return the runs of a world as native events: one starts a minute, later ones when all earlier ones have ended."""
    earlier, ended = _stamped(world.earlier, BEGIN, 0)
    later, _ = _stamped(world.later, ended, len(earlier))
    return earlier + later


def events(application: str, system: str, runs: Iterable[tuple[float, float]]) -> list[bytes]:
    """Return runs over nodes, each a size and a run time in seconds, as native events; one starts a minute."""
    named: dict[str, str | float] = {"application": application, "system": system, "unit": "nodes"}
    return [
        _completed(named | {"n": n, "job_id": f"{i + 1}"}, BEGIN + i * EVERY, time_s)
        for i, (n, time_s) in enumerate(runs)
    ]


def _stamped(runs: Sequence[Run], begin: datetime, before: int) -> tuple[list[bytes], datetime]:
    found, latest = [], begin
    for i, (curve, n, time_s) in enumerate(runs):
        named: dict[str, str | float] = {
            "application": curve.application,
            "system": curve.system,
            "input": curve.input,
            "unit": curve.unit,
            "n": n,
            "job_id": f"{before + i + 1}",
        }
        start = begin + i * EVERY
        found.append(_completed(named, start, time_s))
        latest = max(latest, start + timedelta(seconds=time_s))
    return found, latest


def _completed(fields: Mapping[str, str | float], start: datetime, run_time_s: float) -> bytes:
    end = start + timedelta(seconds=run_time_s)
    times = {"start": start.isoformat(), "end": end.isoformat(), "run_time_s": run_time_s}
    return msgspec.json.encode({"type": "job.completed", **fields, **times})
