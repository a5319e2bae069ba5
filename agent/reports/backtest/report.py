"""The report of a backtest as data: the content of `report.json` and of the page."""

from collections import Counter, defaultdict, deque
from typing import Final

import msgspec

from agent.reports.backtest.alerts import Precision
from agent.reports.backtest.scores import Figures
from agent.reports.backtest.waits import Scheduling
from processors.contracts.outputs import Alert, CurvePoint, ProfileModel

SCHEMA: Final = "scalewatch.backtest/1"


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the files: records, events, runs that ran, refused and omitted records, and the times of the starts.

    `host_minutes` are minutes of hosts with counters or power.
    `scored_since` is the time from which runs are scored and alerts counted; earlier runs are only learned.
    """

    files: tuple[str, ...]
    records: int
    events: int
    runs: int
    refused: int
    refused_by_reason: dict[str, int]
    ignored: dict[str, int]
    first: str
    last: str
    scored_since: str | None = None
    host_minutes: int = 0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Scores of a group of runs: their number, the share with a run time prediction at their start, and its errors."""

    name: str
    runs: int
    answered: float
    figures: Figures


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions against a baseline, on the runs for which both have a value.

    `runs` is `completed` or `all`, `baseline` is `requested` or `last_two`; `share` is the share of runs with both values. `alone`
    holds the scores of the baseline on every run for which it has a value.
    """

    runs: str
    baseline: str
    share: float
    prediction: Figures
    baseline_prediction: Figures
    alone: Figures


class Frequency(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted probability and the observed frequency, with its 95 % Wilson interval."""

    predicted: float
    observed: float
    low: float
    high: float
    runs: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Observed coverage of bands at several levels, all from the distributions predicted at one distance."""

    name: str
    levels: tuple[Frequency, ...]


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Completed runs that started in one period; median errors of the predictions and of the baselines."""

    start: str
    end: str
    row: Row
    requested_median_error: float | None
    last_two_median_error: float | None


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """A completed run in the sample plotted beside its curve: size and run time in seconds."""

    n: float
    run_time_s: float


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """One application: its completed runs, the same runs by the distance of their size from the known sizes, and its last curve.

    `observed` is a sample of its runs.
    """

    application: str
    system: str
    input: str
    unit: str
    row: Row
    horizons: tuple[Row, ...]
    verdict: str | None
    curve: tuple[CurvePoint, ...]
    observed: tuple[Observed, ...]


class PowerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one group with a known power, and the predictions made at their start.

    `measured` is the share of their host-minutes with a power sensor, `estimated` the share estimated from counters.
    Only runs measured for the most part are scored; `mean_w` is their mean measured power. `explained` holds the models that
    explain power by counters at the end of the replay.
    """

    name: str
    runs: int
    answered: float
    measured: float
    estimated: float
    mean_w: float | None
    figures: Figures
    explained: tuple[ProfileModel, ...] = ()


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """A run in the plotted sample: power predicted at its start with its band, and measured power, in W."""

    predicted_w: float
    low_w: float
    high_w: float
    measured_w: float


class Profiled(msgspec.Struct, frozen=True, kw_only=True):
    """Host telemetry of settled runs: the number of runs with a profile, and how many profiles were learned or left out, by reason.

    `readings_left_out` counts implausible sensor readings, by reason. `total` and `by_application` cover the runs with a known
    power.
    """

    settled: int
    profiles: int
    learned: int
    left_out: dict[str, int]
    readings_left_out: dict[str, int]
    total: PowerRow
    by_application: tuple[PowerRow, ...]
    sample: tuple[Drawn, ...]


class AlertCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of firings of an alert, of distinct subjects, and of alerts still firing at the end."""

    name: str
    fired: int
    per_1000_runs: float
    subjects: int
    open: int
    examples: tuple[str, ...]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one configuration. All rows cover completed runs, except `by_state`, which covers all runs that ran.

    `profiled` is None if no run has host telemetry. `limit` compares the predicted probability of exceeding the time limit with
    the observed frequency. `precision` covers the alerts judged by a label file. `coverages` compares nominal and observed
    coverage of the bands, by distance.
    """

    name: str
    settings: dict[str, str]
    total: Row
    by_state: tuple[Row, ...]
    by_horizon: tuple[Row, ...]
    by_verdict: tuple[Row, ...]
    by_application: tuple[Application, ...]
    applications: int
    comparisons: tuple[Comparison, ...]
    periods: tuple[Period, ...]
    quantiles: tuple[Frequency, ...]
    limit: tuple[Frequency, ...]
    limit_brier: float | None
    alerts: tuple[AlertCount, ...]
    faults: int
    profiled: Profiled | None = None
    coverages: tuple[Coverage, ...] = ()
    precision: tuple[Precision, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The file report.json of a backtest: the history, and one variant per configuration, starting with the user's configuration.

    `scheduling` is the effect of that configuration on a simulated scheduler; None if the simulation was not requested.
    """

    schema: str
    agent_version: str
    history: History
    variants: tuple[Variant, ...]
    scheduling: Scheduling | None = None


def encoded(report: Report) -> bytes:
    """Return the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decoded(text: bytes) -> Report:
    """Return the report decoded from JSON.

    Raise msgspec.DecodeError if the text is not a report.
    """
    return msgspec.json.decode(text, type=Report)


SUBJECTS_MAX: Final = 100_000  # of one alert; more are counted as fired, not as subjects of their own
EXAMPLES: Final = 3


class AlertCounts:
    """Counts alerts by name when they start to fire."""

    def __init__(self) -> None:
        self._fired = Counter[str]()
        self._subjects = defaultdict[str, set[str]](set)
        self._firing = defaultdict[str, set[str]](set)
        self._examples = defaultdict[str, deque[str]](lambda: deque(maxlen=EXAMPLES))

    def take(self, alert: Alert) -> None:
        """Record a state change of an alert."""
        name = alert.labels.get("alertname", "")
        if alert.status == "resolved":
            self._firing[name].discard(alert.fingerprint)
        if alert.status != "firing":
            return
        self._firing[name].add(alert.fingerprint)
        if len(self._subjects[name]) < SUBJECTS_MAX:
            self._subjects[name].add(alert.fingerprint)
        self._fired[name] += 1
        self._examples[name].append(f"{alert.time[:16].replace('T', ' ')}  {alert.annotations.get('summary', '')}")

    def counts(self, runs: int) -> tuple[AlertCount, ...]:
        """Return the counts by name, relative to a number of runs."""
        return tuple(
            AlertCount(
                name=name,
                fired=fired,
                per_1000_runs=1000.0 * fired / runs if runs else 0.0,
                subjects=len(self._subjects[name]),
                open=len(self._firing[name]),
                examples=tuple(self._examples[name]),
            )
            for name, fired in sorted(self._fired.items())
        )
