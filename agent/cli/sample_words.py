"""What a configuration makes of samples, in words."""

from collections.abc import Iterator, Sequence
from typing import Final

from agent.app.sample_check import SampleReport
from agent.config.tree import Config
from agent.words import counted

NAMES_SHOWN: Final = 20
_UNPLACED: Final = {
    "hosts": "not in the file of nodes",
    "shared": "places that several hosts share, left out",
    "units": "sensors without a known unit, left out",
    "second": "sensors beside another one of the same resource, left out",
    "metrics": "not taken",
}


def text(report: SampleReport, config: Config) -> str:
    """Return a report as lines: what came first, then what could not be used, by name.

    >>> from agent.config.sources import Source
    >>> config = Config(sources=(Source(topics=("cray",), format="cray"),))
    >>> print(text(SampleReport("a.jsonl", 0, "cray", 3, {"power_w": 2}, 1, units=("CrayTelemetry.Power ASIC",)), config))
    a.jsonl: 3 messages as of the topic cray (cray): 2 samples of 1 host.
      power_w: 2
      sensors without a known unit, left out: CrayTelemetry.Power ASIC
    """
    return "\n".join([_head(report, config), *(f"  {line}" for line in _lines(report))])


def _head(report: SampleReport, config: Config) -> str:
    topics = ", ".join(config.sources[report.source].topics)
    what = f"{report.file}: {counted(report.records, 'message')} as of the topic {topics} ({report.format})"
    samples, events = sum(report.samples.values()), sum(report.events.values())
    came = [f"{counted(samples, 'sample')} of {counted(report.hosts_seen, 'host')}"] if samples else []
    came += [counted(events, "event")] if events else []
    return f"{what}: {' and '.join(came) or 'nothing of use'}."


def _lines(report: SampleReport) -> Iterator[str]:
    amounts = sorted({**report.samples, **report.events}.items())
    if amounts:
        yield ", ".join(f"{name}: {count}" for name, count in amounts)
    for kind, meaning in _UNPLACED.items():
        names = getattr(report, kind)
        if names:
            yield f"{meaning}: {_some(names)}"
    if report.ignored:
        yield "left out: " + ", ".join(f"{reason} {count}" for reason, count in sorted(report.ignored.items()))
    if report.refusals:
        yield f"refused: {report.refusals}"
    yield from (f"  {sentence}" for sentence in report.refused)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return f"{shown} and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else shown
