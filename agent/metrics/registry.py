"""The metrics object that is handed to whoever measures."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from agent import __version__
from agent.metrics.declarations import Declaration, Label, ListName
from agent.metrics.table import AGENT, OTHER

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_SIGNS: Final = {"received": 1.0, "processed": -1.0, "rejected": -1.0, "dropped": -1.0}


class Metrics:
    """Counters, gauges and histograms of this process, as `agent.metrics.table` declares them.

    `formats`, `reasons` and `processors` close the label lists that are known only where everything is wired. Series
    with closed labels exist from the start, at zero. A value outside its list counts as ``other``. Thread-safe.

    >>> metrics = Metrics(formats=("native",), reasons=("empty",), processors=("run_time",))
    >>> metrics.add("scalewatch_dead_letters_total", reason="empty")
    >>> metrics.value("scalewatch_dead_letters_total", reason="empty")
    1.0
    """

    def __init__(self, *, formats: Sequence[str], reasons: Sequence[str], processors: Sequence[str]) -> None:
        # else every counter has a second series with the time it was made; the client ships this one without types
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._lists: Mapping[ListName, Sequence[str]] = {
            "formats": formats,
            "reasons": reasons,
            "processors": processors,
        }
        self._registry = CollectorRegistry(auto_describe=True)
        self._declared = {entry.name: entry for entry in AGENT}
        self._counters = {entry.name: self._counter(entry) for entry in AGENT if entry.kind == "counter"}
        self._gauges = {entry.name: self._gauge(entry) for entry in AGENT if entry.kind == "gauge"}
        self._histograms = {entry.name: self._histogram(entry) for entry in AGENT if entry.kind == "histogram"}
        ProcessCollector(registry=self._registry)
        build = Gauge("scalewatch_build_info", "One, with the version.", ["version"], registry=self._registry)
        build.labels(__version__).set(1)

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter; KeyError where no counter of that name with these labels is declared."""
        values = self._values(name, labels)
        counter = self._counters[name]
        (counter.labels(*values) if values else counter).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge; KeyError as for `add`."""
        values = self._values(name, labels)
        gauge = self._gauges[name]
        (gauge.labels(*values) if values else gauge).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram; KeyError as for `add`."""
        values = self._values(name, labels)
        histogram = self._histograms[name]
        (histogram.labels(*values) if values else histogram).observe(value)

    def value(self, name: str, **labels: str) -> float:
        """Return the present value of a series (of a histogram: its count); KeyError where there is none."""
        value = self._registry.get_sample_value(f"{name}_count" if name in self._histograms else name, labels)
        if value is None:
            raise KeyError(f"{name}{labels} is no series.")
        return value

    def above_zero(self, name: str) -> dict[str, float]:
        """Return the series of a counter with one label that are not zero, by the label's value.

        >>> metrics = Metrics(formats=(), reasons=("empty", "text"), processors=())
        >>> metrics.add("scalewatch_dead_letters_total", reason="text")
        >>> metrics.above_zero("scalewatch_dead_letters_total")
        {'text': 1.0}
        """
        samples = (sample for family in self._counters[name].collect() for sample in family.samples)
        return {next(iter(sample.labels.values())): sample.value for sample in samples if sample.value}

    def unaccounted(self) -> dict[tuple[str, str], float]:
        """Return, by role and format, received - processed - rejected - dropped: what is in work, at rest nothing.

        >>> metrics = Metrics(formats=("native",), reasons=(), processors=())
        >>> metrics.add("scalewatch_events_total", 2, role="collector", format="native", outcome="received")
        >>> metrics.unaccounted()
        {('collector', 'native'): 2.0}
        """
        in_work: dict[tuple[str, str], float] = {}
        for family in self._counters["scalewatch_events_total"].collect():
            for sample in family.samples:
                key = sample.labels["role"], sample.labels["format"]
                in_work[key] = in_work.get(key, 0.0) + _SIGNS.get(sample.labels["outcome"], 0.0) * sample.value
        return {key: value for key, value in in_work.items() if value}

    def register(self, collector: Collector) -> None:
        """Add a collector that is asked at each scrape."""
        self._registry.register(collector)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format; CONTENT_TYPE is its type."""
        return generate_latest(self._registry)

    def _counter(self, entry: Declaration) -> Counter:
        counter = Counter(entry.name, entry.help, entry.label_names, registry=self._registry)
        for values in self._combinations(entry):
            counter.labels(*values)
        return counter

    def _gauge(self, entry: Declaration) -> Gauge:
        gauge = Gauge(entry.name, entry.help, entry.label_names, registry=self._registry)
        for values in self._combinations(entry):
            gauge.labels(*values)
        return gauge

    def _histogram(self, entry: Declaration) -> Histogram:
        histogram = Histogram(entry.name, entry.help, entry.label_names, buckets=entry.buckets, registry=self._registry)
        for values in self._combinations(entry):
            histogram.labels(*values)
        return histogram

    def _combinations(self, entry: Declaration) -> Iterator[tuple[str, ...]]:
        if not entry.labels:
            return iter(())
        return product(*(self._closed(label) for label in entry.labels))

    def _closed(self, label: Label) -> Sequence[str]:
        return self._lists[label.given_as] if label.given_as else label.values

    def _values(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        declared = self._declared[name].labels
        if len(labels) != len(declared):
            raise KeyError(f"{name} has the labels {[label.name for label in declared]}, not {sorted(labels)}.")
        given = ((label, labels[label.name]) for label in declared)
        return tuple(value if value in self._closed(label) else OTHER for label, value in given)
