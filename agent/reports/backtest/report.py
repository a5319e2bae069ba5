"""The report of a backtest as data: the content of `report.json` and of the HTML page."""

from typing import Final

import msgspec

from agent.reports.backtest.alerts import AlertCount, Precision
from agent.reports.backtest.scores import Figures, Frequency
from agent.reports.backtest.waits import Scheduling
from processors.contracts.outputs import CurvePoint, ProfileModel

SCHEMA: Final = "scalewatch.backtest/1"


class ReplayedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the files: records, events, runs, refused and ignored records by reason, and the first and last start.

    `host_minutes` are host minutes with counters or power. Runs that started from `scored_since` on were scored and their
    alerts counted; earlier runs were only learned.
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


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one kind: their number, the share that had a prediction at the start (`answered`), and the scores of the predictions."""

    name: str
    runs: int
    answered: float
    figures: Figures


class BaselineComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of predictions and of a baseline for the same runs: those that have both a prediction and a baseline value.

    `runs` is `completed` or `all`, `baseline` is `requested` or `last_two`; `share` is the share of runs that have both.
    `alone` has the scores of the baseline on all runs with a baseline value.
    """

    runs: str
    baseline: str
    share: float
    prediction: Figures
    baseline_prediction: Figures
    alone: Figures


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of bands at several levels, all derived from the predictions at one distance."""

    name: str
    levels: tuple[Frequency, ...]


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Completed runs that started in one period: scores of the predictions, and median relative errors of the two baselines."""

    start: str
    end: str
    row: ScoreRow
    requested_median_error: float | None
    last_two_median_error: float | None


class Observed(msgspec.Struct, frozen=True, array_like=True):
    """One completed run of the sample next to a curve: size, and run time in seconds."""

    n: float
    run_time_s: float


class ScoredApplication(msgspec.Struct, frozen=True, kw_only=True):
    """One application: scores of its completed runs, in total and by distance from the sizes known at the start, and its last curve.

    `observed` is a sample of its completed runs.
    """

    application: str
    system: str
    input: str
    unit: str
    row: ScoreRow
    horizons: tuple[ScoreRow, ...]
    verdict: str | None
    curve: tuple[CurvePoint, ...]
    observed: tuple[Observed, ...]


class PowerRow(ScoreRow, frozen=True, kw_only=True):
    """Runs of one kind with known power: scores of the power predicted at their start, and how the power was determined.

    `measured` is the share of their host-minutes with a power sensor, `estimated` the share estimated from counters. Only runs
    with enough measured host-minutes are scored; `mean_w` is their mean measured power. `explained` has the application's last
    models of power from counters.
    """

    measured: float
    estimated: float
    mean_w: float | None
    explained: tuple[ProfileModel, ...] = ()


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """One run of the sample in the power chart: predicted power with its band, and measured power, in W."""

    predicted_w: float
    low_w: float
    high_w: float
    measured_w: float


class Profiled(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of settled runs, of their profiles, and of learned profiles; `left_out` counts the runs without one by reason.

    `readings_left_out` counts implausible sensor readings by reason. `total` and `by_application` cover the runs with known
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


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one configuration. Rows count completed runs only, except `by_state`, which counts all runs.

    `profiled` is None if no run has host telemetry. `limit` compares the predicted probability that a run exceeds its time
    limit with the observed frequency. `precision` counts only alerts with a label. `coverages` compares, for each distance from
    the known sizes, the nominal coverage of bands with the observed coverage.
    """

    name: str
    settings: dict[str, str]
    total: ScoreRow
    by_state: tuple[ScoreRow, ...]
    by_horizon: tuple[ScoreRow, ...]
    by_verdict: tuple[ScoreRow, ...]
    by_application: tuple[ScoredApplication, ...]
    applications: int
    comparisons: tuple[BaselineComparison, ...]
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
    """The content of a backtest's report.json: the history, and one variant per configuration, the user's configuration first.

    `scheduling` compares the waits of jobs that are scheduled by predicted and by requested times; None unless requested.
    """

    schema: str
    agent_version: str
    history: ReplayedHistory
    variants: tuple[Variant, ...]
    scheduling: Scheduling | None = None
