"""The table of all metrics. Names follow Prometheus practice: base units, and `_total` for counters."""

from typing import Final, Literal, get_args

import msgspec

from processors.contracts.alerts import AlertName
from processors.contracts.names import HORIZONS
from processors.contracts.outputs import VERDICTS, AlertEnd
from processors.contracts.telemetry import COMPONENTS
from sinks.topics import KINDS as OUTPUTS

Kind = Literal["counter", "gauge", "histogram"]
ListName = Literal["formats", "reasons", "processors", "sources"]


class Label(msgspec.Struct, frozen=True):
    """A label with its closed list of `values`, or with the name of a list that the application passes in (`given_as`).

    A label with neither accepts any value; only collectors that bound their number of series may use one.
    """

    name: str
    values: tuple[str, ...] = ()
    given_as: ListName | None = None


class Declaration(msgspec.Struct, frozen=True):
    """Name, kind, help, labels and histogram buckets of a metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)


APPLICATION: Final = (Label("application"), Label("system"), Label("input"), Label("unit"))
KINDS: Final = ("anomaly", "reliability")
SEVERITIES: Final = ("info", "warning", "critical")
SUBJECT: Final = (*APPLICATION, Label("n"), Label("host"), Label("partition"), Label("rack"))
_LEVEL: Final = Label("level", values=("0.05", "0.5", "0.95"))
ROLES: Final = ("collector", "learner")
EVENT_OUTCOMES: Final = ("received", "processed", "rejected", "dropped", "repeated")
REFUSALS: Final = ("too_old", "correction_too_late", "not_one_size", "implausible", "network_of_no_run")
CHECKPOINT_OUTCOMES: Final = ("confirmed", "lost", "fenced", "unavailable")
DIRECTIONS: Final = ("regression", "improvement")
ALERT_NAMES: Final[tuple[str, ...]] = get_args(AlertName)
ALERT_ENDS: Final[tuple[str, ...]] = get_args(AlertEnd)
BOUNDS: Final = (
    "applications_max", "fits_per_tick_max", "open_jobs_max", "open_job_max_s", "deduplication_buckets_max",
    "deduplication_runs_max", "forecasts_per_user_max",
    "open_alerts_max", "explaining_hosts_max", "hosts_max", "hosts_per_run_max", "inputs_max", "similar_runs_max", "series_max",
    "job_hosts_max", "host_jobs_max", "host_partitions_max", "host_states_max",
    "collector_series_max", "host_minute_bytes_max",
    "profile_resources_max", "profile_readings_max", "profile_minutes_max", "profile_sums_max", "profile_runs_max",
    "profile_power_models_max", "profile_bytes_max", "feature_bytes_max", "communication_pools_max", "source_topics_max", "deadletter_bytes_per_s_max",
    "evidence_script_bytes_max", "evidence_comment_bytes_max", "evidence_hosts_bytes_max", "evidence_attributes_bytes_max",
    "http_connections_max", "http_address_connections_max",
)  # fmt: skip
SAMPLES_LEFT_OUT: Final = (
    "late", "ahead", "not_finite", "repeated", "thinned", "unwanted", "series_max", "unknown_system", "null", "no_number",
    "negative", "too_large", "unknown_host", "shared", "no_unit", "second_sensor",
)  # fmt: skip
OTHER: Final = "other"  # counts values outside a closed list, because a metric must never stop the agent
FIT_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
WORK_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PROFILES: Final = ("learned", "no_telemetry", "coverage", "not_completed", "not_identified", "end_late")
USEFUL: Final = ("max", "knee", "half_efficiency", "least_energy", "least_energy_delay", "slower_beyond")
_ROLE: Final = Label("role", values=ROLES)
_HORIZON: Final = Label("horizon", values=HORIZONS)
_PARTITION: Final = (Label("system"), Label("partition"))
_HOST: Final = (Label("system"), Label("host"))
_RESOURCE: Final = (*_HOST, Label("resource"))

ALERTS: Final = (
    Declaration(
        "scalewatch_alerts", "gauge", "Number of alerts by kind, severity and status.",
        (Label("kind", values=KINDS), Label("severity", values=SEVERITIES),
        Label("status", values=("pending", "firing", "resolved"))),
    ),
    Declaration(
        "scalewatch_alert_firing", "gauge",
        "Number of firing alerts by name and subject, at most 200 series, most severe first; unused labels are empty.",
        (Label("alertname"), Label("kind", values=KINDS), Label("severity", values=SEVERITIES), *SUBJECT),
    ),
)  # fmt: skip
POWER: Final = (
    Declaration(
        "scalewatch_predicted_power_watts", "gauge",
        "Predicted total power of all hosts of a run at size n; levels 0.05 and 0.95 are the ends of the 90 % band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_predicted_energy_joules", "gauge",
        "Predicted energy of a run at size n; levels 0.05 and 0.95 are the ends of the 90 % band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_power_error_ratio", "gauge",
        "Median relative error of the power that was predicted before a run was learned.", APPLICATION,
    ),
    Declaration(
        "scalewatch_power_coverage_ratio", "gauge", "Share of runs whose power was inside the 90 % band that was predicted before the run was learned.",
        APPLICATION,
    ),
    Declaration(
        "scalewatch_power_source_ratio", "gauge",
        "Share of the host-minutes of runs whose power was measured by sensors or estimated from counters.",
        (*APPLICATION, Label("source", values=("measured", "estimated"))),
    ),
)  # fmt: skip
AGENT: Final = (
    Declaration(
        "scalewatch_events_total", "counter",
        "Events by outcome; received = processed + rejected + dropped, and repeated is a part of processed.",
        (_ROLE, Label("format", given_as="formats"), Label("outcome", values=EVENT_OUTCOMES)),
    ),
    Declaration(
        "scalewatch_dead_letters_total", "counter", "Rejected messages or parts of messages, by reason.",
        (Label("reason", given_as="reasons"),),
    ),
    Declaration(
        "scalewatch_samples_left_out_total", "counter", "Host samples that were ignored, by reason.",
        (Label("reason", values=SAMPLES_LEFT_OUT),),
    ),
    Declaration(
        "scalewatch_source_dead_letters_total", "counter",
        "Rejected messages or parts of messages, by the source topic or pattern in the configuration.",
        (Label("source", given_as="sources"),),
    ),
    Declaration(
        "scalewatch_source_records_deleted_total", "counter",
        "Source records deleted by the broker before they were read, by topic or pattern in the configuration; may include "
        "some records read shortly before a stop.", (Label("source", given_as="sources"),),
    ),
    Declaration("scalewatch_collector_host_records_total", "counter", "Host records written to the journal, one per host and minute."),
    Declaration("scalewatch_collector_series", "gauge", "Host resources that this collector tracks."),
    Declaration(
        "scalewatch_collector_partitions_waiting", "gauge",
        "Source partitions that are paused until the Avro schema of their next message is available.",
    ),
    Declaration(
        "scalewatch_time_held_back_seconds", "gauge",
        "Delay of event time because sources of this collector lag behind or send late; 0 for less than a minute.",
    ),
    Declaration(
        "scalewatch_schema_lookups_total", "counter", "Requests to the schema registry, by outcome.",
        (Label("outcome", values=("found", "absent", "failed")),),
    ),
    Declaration(
        "scalewatch_processor_faults_total", "counter", "Events that made a processor fail, by processor.",
        (Label("processor", given_as="processors"),),
    ),
    Declaration(
        "scalewatch_emissions_total", "counter", "Records written to output topics, including tombstones.",
        (Label("topic", values=OUTPUTS),),
    ),
    Declaration(
        "scalewatch_outputs_unreadable_total", "counter",
        "Records of output topics that were skipped because this version cannot decode them.",
        (Label("topic", values=OUTPUTS),),
    ),
    Declaration(
        "scalewatch_bounds_hit_total", "counter",
        "Number of times a limit was reached and something was evicted, rejected or deferred, by limit.", (Label("bound", values=BOUNDS),),
    ),
    Declaration(
        "scalewatch_runs_refused_total", "counter", "Runs that were not learned because they were rejected, by reason.",
        (Label("reason", values=REFUSALS),),
    ),
    Declaration(
        "scalewatch_recent_runs", "gauge", "Settled runs that can be queried: the newest ones, at most 20,000.",
    ),
    Declaration(
        "scalewatch_level_shifts_total", "counter",
        "Permanent changes of the run time of an application, by direction; past runs count, too.",
        (Label("direction", values=DIRECTIONS),),
    ),
    Declaration(
        "scalewatch_runs_explained_total", "counter",
        "Runs without an alert of their own because a known faulty host explains their run time or power.",
        (Label("what", values=("run_time", "power")),),
    ),
    Declaration(
        "scalewatch_alerts_withheld_total", "counter",
        "Alerts that were not sent because of an exclusion, maintenance, a short run or a dry run.",
        (Label("alertname", values=ALERT_NAMES),),
    ),
    Declaration(
        "scalewatch_alerts_resolved_total", "counter",
        "Resolved alerts by reason: the cause ended, the host left service, another alert replaced them (superseded), or "
        "their cause is no longer tracked (forgotten).",
        (Label("alertname", values=ALERT_NAMES), Label("by", values=ALERT_ENDS)),
    ),
    Declaration(
        "scalewatch_profiles_total", "counter",
        "Settled runs by outcome of their profile: learned, or the reason why not. end_late is a part of no_telemetry: the "
        "end was reported after the host measurements had been evicted.",
        (Label("outcome", values=PROFILES),),
    ),
    Declaration(
        "scalewatch_run_node_seconds_total", "counter",
        "Node-seconds of settled runs by origin of their energy: measured by hosts or the scheduler; estimated from counters or "
        "split between jobs of a node; or unknown.",
        (Label("energy", values=("measured", "estimated", "unknown")),),
    ),
    Declaration(
        "scalewatch_run_energy_joules_total", "counter",
        "Energy of settled runs, by origin of the energy (measured or estimated).",
        (Label("energy", values=("measured", "estimated")),),
    ),
    Declaration(
        "scalewatch_power_estimate_error_watts", "gauge",
        "Median recent error of the power estimated from counters, checked on hosts with sensors, for the worst kind of host; "
        "0 if no power is estimated.", (Label("component", values=COMPONENTS),),
    ),
    Declaration(
        "scalewatch_profile_records_late_total", "counter",
        "Host records of a minute that arrived too late for the profile of a run.",
    ),
    Declaration(
        "scalewatch_checkpoints_total", "counter", "Checkpoints of the learner, by outcome.",
        (Label("outcome", values=CHECKPOINT_OUTCOMES),),
    ),
    Declaration(
        "scalewatch_checkpoint_duration_seconds", "histogram", "Duration of a checkpoint from the first write to the confirmation.",
        buckets=WORK_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_ticks_refused_total", "counter",
        "Collector ticks more than five seconds ahead of the broker's clock, which were replaced by the broker's time.",
    ),
    Declaration(
        "scalewatch_clock_ahead_seconds", "gauge",
        "Difference between the clock of this host and the broker's, positive if ahead; 0 for less than a minute.",
    ),
    Declaration(
        "scalewatch_topic_faults", "gauge",
        "Number of faults of the agent's topics: unsafe settings, missing replicas, missing rights.",
    ),
    Declaration(
        "scalewatch_config_loaded_timestamp_seconds", "gauge", "Unix time at which the configuration in use was loaded.",
    ),
    Declaration(
        "scalewatch_config_problems", "gauge",
        "Number of problems found by the last reload; above 0, the previous configuration stays in use.",
    ),
    Declaration(
        "scalewatch_config_keys_waiting", "gauge",
        "Number of changed keys that take effect only after a restart of the agent.",
    ),
    Declaration("scalewatch_restores_total", "counter", "Restores of a shard's state when a learner took the shard over."),
    Declaration(
        "scalewatch_restores_without_hosts_total", "counter",
        "Restores without the host state, because the journal no longer had the records since the checkpoint; hosts are learned "
        "again.",
    ),
    Declaration(
        "scalewatch_state_records", "gauge", "State records in memory, by processor.",
        (Label("processor", given_as="processors"),),
    ),
    Declaration(
        "scalewatch_fit_duration_seconds", "histogram", "Duration of fitting the models of one application.",
        buckets=FIT_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_fits_waiting", "gauge",
        "Models waiting to be fitted at the last tick; label lane separates the busiest user, application or system (longest) "
        "from the rest (others).", (Label("lane", values=("longest", "others")),),
    ),
    Declaration(
        "scalewatch_batch_duration_seconds", "histogram", "Duration of processing one polled batch.",
        (_ROLE,), buckets=WORK_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_alertmanager_posts_total", "counter", "Requests that send alerts to an Alertmanager, by outcome.",
        (Label("outcome", values=("sent", "failed")),),
    ),
    Declaration(
        "scalewatch_alertmanager_looks_total", "counter", "Requests for the silences of an Alertmanager, by outcome.",
        (Label("outcome", values=("answered", "failed")),),
    ),
    Declaration(
        "scalewatch_alertmanager_unanswered", "gauge",
        "Alertmanagers whose silences could not be read at the last attempt, so that the page may show outdated silences.",
    ),
    Declaration("scalewatch_alertmanager_alerts_total", "counter", "Alerts sent to Alertmanagers, including repetitions."),
)  # fmt: skip
HEALTH: Final = (
    Declaration("scalewatch_ready", "gauge", "1 if the role is ready, else 0.", (_ROLE,)),
    Declaration(
        "scalewatch_role_restarts_total", "counter", "Restarts of a role since the agent started.", (_ROLE,),
    ),
    Declaration(
        "scalewatch_event_time_lag_seconds", "gauge",
        "Time since the newest processed tick; negative if a wrong clock put event time into the future.", (_ROLE,),
    ),
    Declaration("scalewatch_checkpoint_age_seconds", "gauge", "Time since the last confirmed checkpoint of the learner.", (_ROLE,)),
)  # fmt: skip
SOURCES: Final = (
    Declaration(
        "scalewatch_source_messages", "gauge",
        "Messages ever written to a source topic; 0 if the topic does not exist.", (Label("topic"),),
    ),
    Declaration(
        "scalewatch_source_newest_message_timestamp_seconds", "gauge",
        "Unix time of the newest message of a source topic; 0 if the topic is empty.", (Label("topic"),),
    ),
    Declaration(
        "scalewatch_source_silent_threshold_seconds", "gauge",
        "Seconds without a message after which a source topic counts as silent (sources[].silent_s).", (Label("topic"),),
    ),
)  # fmt: skip
WITHIN: Final = ("1h", "4h", "12h")
JOBS: Final = (
    Declaration(
        "scalewatch_running_jobs", "gauge", "Running jobs by partition, with a predicted or an unknown end.",
        (*_PARTITION, Label("end", values=("predicted", "unknown"))),
    ),
    Declaration(
        "scalewatch_running_jobs_hit_limit", "gauge",
        "Running jobs that will probably reach their time limit, by partition.", _PARTITION,
    ),
    Declaration(
        "scalewatch_running_nodes", "gauge", "Nodes allocated to running jobs, by partition; jobs that report no number of nodes count 0.", _PARTITION,
    ),
    Declaration(
        "scalewatch_running_nodes_free", "gauge",
        "Nodes that will become free within the given time, by the predicted ends of running jobs.",
        (*_PARTITION, Label("within", values=WITHIN)),
    ),
)  # fmt: skip
PREDICTIONS: Final = (
    Declaration(
        "scalewatch_predicted_run_time_seconds", "gauge",
        "Predicted run time at size n; level 0.5 is the prediction, 0.05 and 0.95 are the ends of the 90 % band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_prediction_coverage_ratio", "gauge",
        "Share of runs inside the 90 % band that was published before the run ended.", APPLICATION,
    ),
    Declaration(
        "scalewatch_prediction_error_ratio", "gauge",
        "Median relative error of the run times that were published before the run ended.", APPLICATION,
    ),
    Declaration(
        "scalewatch_prediction_runs", "gauge",
        "Runs that a prediction learned from (learned), and runs that measured its coverage and error (scored).",
        (*APPLICATION, Label("use", values=("learned", "scored"))),
    ),
    Declaration(
        "scalewatch_prediction_horizon_coverage_ratio", "gauge",
        "Share of runs inside the published 90 % band, by distance of their size from the sizes run before; from 20 runs on.",
        (*APPLICATION, _HORIZON),
    ),
    Declaration(
        "scalewatch_prediction_horizon_runs", "gauge",
        "Runs that measured the coverage, by distance of their size from the sizes run before.", (*APPLICATION, _HORIZON),
    ),
    Declaration(
        "scalewatch_useful_size", "gauge",
        "Recommended sizes in the unit of the application, by criterion: largest useful, knee, half efficiency, least energy, "
        "least energy times run time, and the size beyond which the application slows down.",
        (*APPLICATION, Label("criterion", values=USEFUL)),
    ),
    Declaration(
        "scalewatch_reliability", "gauge", "1 for the current verdict on the predictions of an application.",
        (*APPLICATION, Label("verdict", values=VERDICTS)),
    ),
    Declaration(
        "scalewatch_applications", "gauge", "Applications with a prediction: exported (shown), beyond metrics.applications_max (left_out), or outdated (stale).",
        (Label("status", values=("shown", "left_out", "stale")),),
    ),
    *ALERTS,
)  # fmt: skip
UNDER_LOAD: Final = (
    Declaration(
        "scalewatch_under_load_run_time_seconds", "gauge",
        "Predicted run time under the current load, at the last size run on the usual partition of the application; levels as in "
        "scalewatch_predicted_run_time_seconds.", (*APPLICATION, _LEVEL),
    ),
    Declaration(
        "scalewatch_under_load_factor", "gauge",
        "Factor by which load lengthens the run time: now, and usually while the curve was learned.",
        (*APPLICATION, Label("moment", values=("now", "usual"))),
    ),
    Declaration(
        "scalewatch_under_load_in_range_ratio", "gauge",
        "Share of runs inside the range that was predicted under load when they started.", APPLICATION,
    ),
)  # fmt: skip
HOSTS: Final = (
    Declaration(
        "scalewatch_host_window", "gauge",
        "Statistics of a host resource over the last five minutes, in the unit of the resource; mean is over the last "
        "minute.", (*_RESOURCE, Label("stat", values=("mean", "low", "high", "q05", "q50", "q95"))),
    ),
    Declaration(
        "scalewatch_host_window_samples", "gauge", "Samples of a host resource in the last five minutes.", _RESOURCE,
    ),
    Declaration(
        "scalewatch_host_forecast", "gauge", "Forecast of the next 10-second mean of a host resource.", _RESOURCE,
    ),
    Declaration(
        "scalewatch_host_forecast_level", "gauge",
        "Quantiles of the forecast of a host resource, from the latest hundred forecast errors.",
        (*_RESOURCE, _LEVEL),
    ),
    Declaration(
        "scalewatch_host_anomaly_score", "gauge",
        "Latest anomaly score of a host resource from 0 to 1; resource * is the whole host.", _RESOURCE,
    ),
    Declaration("scalewatch_hosts_shown", "gauge", "Hosts with their own series in this export."),
    Declaration(
        "scalewatch_hosts_left_out", "gauge",
        "1 if hosts or resources have no series because a limit is reached, else 0.",
    ),
)  # fmt: skip
METRICS: Final = (*AGENT, *HEALTH, *SOURCES, *JOBS, *PREDICTIONS, *UNDER_LOAD, *POWER, *HOSTS)


def rows() -> tuple[tuple[str, str, tuple[str, ...], str], ...]:
    """Return name, kind, label names and help of each metric, for the reference page."""
    return tuple((entry.name, entry.kind, entry.label_names, entry.help) for entry in METRICS)
