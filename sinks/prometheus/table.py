"""The table of all metrics. Names follow Prometheus conventions: base units, and `_total` for counters."""

from typing import Final, Literal, get_args

import msgspec

from processors.contracts.alerts import AlertName
from processors.contracts.hosts import HOST_ANOMALY_RATES
from processors.contracts.names import HORIZONS
from processors.contracts.outputs import VERDICTS, AlertEnd
from processors.contracts.telemetry import COMPONENTS
from sinks.topics import KINDS as OUTPUTS

Kind = Literal["counter", "gauge", "histogram"]
ListName = Literal["formats", "reasons", "processors", "sources"]


class Label(msgspec.Struct, frozen=True):
    """A label with its closed list of `values`, or with the name of a list that the agent passes in (`given_as`).

    A label without a list accepts any value; only collectors that limit their number of series may use such a label.
    """

    name: str
    values: tuple[str, ...] = ()
    given_as: ListName | None = None


class Declaration(msgspec.Struct, frozen=True):
    """A metric; a histogram has `buckets`, and the name of a counter ends with `_total`."""

    name: str
    labels: tuple[Label, ...]
    help: str
    buckets: tuple[float, ...] = ()

    @property
    def kind(self) -> Kind:
        if self.buckets:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)


APPLICATION: Final = (Label("application"), Label("system"), Label("input"), Label("unit"))
KINDS: Final = ("anomaly", "reliability")
SEVERITIES: Final = ("info", "warning", "critical")
SUBJECT: Final = (*APPLICATION, Label("n"), Label("host"), Label("partition"), Label("rack"))
LEVELS: Final = ("0.05", "0.5", "0.95")
_LEVEL: Final = Label("level", LEVELS)
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
# in the order of the fields of `UsefulSizes`
USEFUL: Final = ("max", "knee", "least_energy", "least_energy_delay", "half_efficiency", "slower_beyond")
_ROLE: Final = Label("role", ROLES)
_HORIZON: Final = Label("horizon", HORIZONS)
_PARTITION: Final = (Label("system"), Label("partition"))
_HOST: Final = (Label("system"), Label("host"))
_RESOURCE: Final = (*_HOST, Label("resource"))

ALERTS: Final = (
    Declaration("scalewatch_alerts", (Label("kind", KINDS), Label("severity", SEVERITIES), Label("status", ("pending", "firing", "resolved"))),
        "Number of alerts by kind, severity and status."),
    Declaration("scalewatch_alert_firing", (Label("alertname"), Label("kind", KINDS), Label("severity", SEVERITIES), *SUBJECT),
        "Number of firing alerts by name and subject, at most 200 series, most severe first; unused labels are empty."),
)  # fmt: skip
POWER: Final = (
    Declaration("scalewatch_predicted_power_watts", (*APPLICATION, Label("n"), _LEVEL),
        "Predicted total power of all hosts of a run at size n; levels 0.05 and 0.95 are the ends of the 90 % band."),
    Declaration("scalewatch_predicted_energy_joules", (*APPLICATION, Label("n"), _LEVEL),
        "Predicted energy of a run at size n; levels 0.05 and 0.95 are the ends of the 90 % band."),
    Declaration("scalewatch_power_error_ratio", APPLICATION,
        "Median relative error of the power that was predicted before a run was learned."),
    Declaration("scalewatch_power_coverage_ratio", APPLICATION,
        "Share of runs whose power was inside the 90 % band that was predicted before the run was learned."),
    Declaration("scalewatch_power_source_ratio", (*APPLICATION, Label("source", ("measured", "estimated"))),
        "Share of the host-minutes of runs whose power was measured by sensors or estimated from counters."),
)  # fmt: skip
AGENT: Final = (
    Declaration("scalewatch_events_total", (_ROLE, Label("format", given_as="formats"), Label("outcome", EVENT_OUTCOMES)),
        "Events by outcome; received = processed + rejected + dropped, and repeated is a part of processed."),
    Declaration("scalewatch_dead_letters_total", (Label("reason", given_as="reasons"),),
        "Rejected messages or parts of messages, by reason."),
    Declaration("scalewatch_samples_left_out_total", (Label("reason", SAMPLES_LEFT_OUT),),
        "Host samples that were ignored, by reason."),
    Declaration("scalewatch_source_dead_letters_total", (Label("source", given_as="sources"),),
        "Rejected messages or parts of messages, by the source topic or pattern in the configuration."),
    Declaration("scalewatch_source_records_deleted_total", (Label("source", given_as="sources"),),
        "Source records deleted by the broker before they were read, by topic or pattern in the configuration; may include some records read shortly before a stop."),
    Declaration("scalewatch_collector_host_records_total", (),
        "Host records written to the journal, one per host and minute."),
    Declaration("scalewatch_collector_series", (), "Host resources that this collector tracks."),
    Declaration("scalewatch_collector_partitions_waiting", (),
        "Source partitions that are paused until the Avro schema of their next message is available."),
    Declaration("scalewatch_time_held_back_seconds", (),
        "Delay of event time because sources of this collector lag behind or send late; 0 for less than a minute."),
    Declaration("scalewatch_schema_lookups_total", (Label("outcome", ("found", "absent", "failed")),),
        "Requests to the schema registry, by outcome."),
    Declaration("scalewatch_processor_faults_total", (Label("processor", given_as="processors"),),
        "Events that made a processor fail, by processor."),
    Declaration("scalewatch_emissions_total", (Label("topic", OUTPUTS),),
        "Records written to output topics, including tombstones."),
    Declaration("scalewatch_outputs_unreadable_total", (Label("topic", OUTPUTS),),
        "Records of output topics that were skipped because this version cannot decode them."),
    Declaration("scalewatch_bounds_hit_total", (Label("bound", BOUNDS),),
        "Number of times a limit was reached and something was evicted, rejected or deferred, by limit."),
    Declaration("scalewatch_runs_refused_total", (Label("reason", REFUSALS),),
        "Runs that were not learned because they were rejected, by reason."),
    Declaration("scalewatch_daily_maxima_total", (Label("rate", HOST_ANOMALY_RATES),),
        "Daily maxima of hosts that were too unusual for this rate of alerts per host and day; rate 1 counts all. Compare their ratio with the rate."),
    Declaration("scalewatch_level_shifts_total", (Label("direction", DIRECTIONS),),
        "Permanent changes of the run time of an application, by direction; past runs count, too."),
    Declaration("scalewatch_alerts_withheld_total", (Label("alertname", ALERT_NAMES),),
        "Alerts that were not sent because of an exclusion, maintenance, a short run or a dry run."),
    Declaration("scalewatch_alerts_resolved_total", (Label("alertname", ALERT_NAMES), Label("by", ALERT_ENDS)),
        "Resolved alerts by reason: the cause ended, the host left service, another alert replaced them (superseded), or their cause is no longer tracked (forgotten)."),
    Declaration("scalewatch_profiles_total", (Label("outcome", PROFILES),),
        "Settled runs by outcome of their profile: learned, or the reason why not. end_late is a part of no_telemetry: the end was reported after the host measurements had been evicted."),
    Declaration("scalewatch_run_node_seconds_total", (Label("energy", ("measured", "estimated", "unknown")),),
        "Node-seconds of settled runs by origin of their energy: measured by hosts or the scheduler; estimated from counters or split between jobs of a node; or unknown."),
    Declaration("scalewatch_run_energy_joules_total", (Label("energy", ("measured", "estimated")),),
        "Energy of settled runs, by origin of the energy (measured or estimated)."),
    Declaration("scalewatch_power_estimate_error_watts", (Label("component", COMPONENTS),),
        "Median recent error of the power estimated from counters, checked on hosts with sensors, for the worst kind of host; 0 if no power is estimated."),
    Declaration("scalewatch_profile_records_late_total", (),
        "Host records of a minute that arrived too late for the profile of a run."),
    Declaration("scalewatch_checkpoints_total", (Label("outcome", CHECKPOINT_OUTCOMES),),
        "Checkpoints of the learner, by outcome."),
    Declaration("scalewatch_checkpoint_duration_seconds", (),
        "Duration of a checkpoint from the first write to the confirmation.", buckets=WORK_BUCKETS_S),
    Declaration("scalewatch_ticks_refused_total", (),
        "Collector ticks more than five seconds ahead of the broker's clock, which were replaced by the broker's time."),
    Declaration("scalewatch_clock_ahead_seconds", (),
        "Difference between the clock of this host and the broker's, positive if ahead; 0 for less than a minute."),
    Declaration("scalewatch_topic_faults", (),
        "Number of faults of the agent's topics: unsafe settings, missing replicas, missing rights."),
    Declaration("scalewatch_config_loaded_timestamp_seconds", (),
        "Unix time at which the configuration in use was loaded."),
    Declaration("scalewatch_config_problems", (),
        "Number of problems found by the last reload; above 0, the previous configuration stays in use."),
    Declaration("scalewatch_config_keys_waiting", (),
        "Number of changed keys that take effect only after a restart of the agent."),
    Declaration("scalewatch_restores_total", (), "Restores of a shard's state when a learner took the shard over."),
    Declaration("scalewatch_restores_without_hosts_total", (),
        "Restores without the host state, because the journal no longer had the records since the checkpoint; hosts are learned again."),
    Declaration("scalewatch_state_records", (Label("processor", given_as="processors"),),
        "State records in memory, by processor."),
    Declaration("scalewatch_fit_duration_seconds", (),
        "Duration of fitting the models of one application.", buckets=FIT_BUCKETS_S),
    Declaration("scalewatch_fits_waiting", (Label("lane", ("longest", "others")),),
        "Models waiting to be fitted at the last tick; label lane separates the busiest user, application or system (longest) from the rest (others)."),
    Declaration("scalewatch_batch_duration_seconds", (_ROLE,),
        "Duration of processing one polled batch.", buckets=WORK_BUCKETS_S),
    Declaration("scalewatch_alertmanager_posts_total", (Label("outcome", ("sent", "failed")),),
        "Requests that send alerts to an Alertmanager, by outcome."),
    Declaration("scalewatch_alertmanager_unanswered", (),
        "Alertmanagers whose silences could not be read at the last attempt, so that the page may show outdated silences."),
)  # fmt: skip
HEALTH: Final = (
    Declaration("scalewatch_ready", (_ROLE,), "1 if the role is ready, else 0."),
    Declaration("scalewatch_role_restarts_total", (_ROLE,), "Restarts of a role since the agent started."),
    Declaration("scalewatch_event_time_lag_seconds", (_ROLE,),
        "Time since the newest processed tick; negative if a wrong clock put event time into the future."),
    Declaration("scalewatch_checkpoint_age_seconds", (_ROLE,),
        "Time since the last confirmed checkpoint of the learner."),
)  # fmt: skip
SOURCES: Final = (
    Declaration("scalewatch_source_messages", (Label("topic"),),
        "Messages ever written to a source topic; 0 if the topic does not exist."),
    Declaration("scalewatch_source_newest_message_timestamp_seconds", (Label("topic"),),
        "Unix time of the newest message of a source topic; 0 if the topic is empty."),
    Declaration("scalewatch_source_silent_threshold_seconds", (Label("topic"),),
        "Seconds without a message after which a source topic counts as silent (sources[].silent_s)."),
)  # fmt: skip
WITHIN: Final = ("1h", "4h", "12h")
JOBS: Final = (
    Declaration("scalewatch_running_jobs", (*_PARTITION, Label("end", ("predicted", "unknown"))),
        "Running jobs by partition, with a predicted or an unknown end."),
    Declaration("scalewatch_running_jobs_hit_limit", _PARTITION,
        "Running jobs that will probably reach their time limit, by partition."),
    Declaration("scalewatch_running_nodes", _PARTITION,
        "Nodes allocated to running jobs, by partition; jobs that report no number of nodes count 0."),
    Declaration("scalewatch_running_nodes_free", (*_PARTITION, Label("within", WITHIN)),
        "Nodes that will become free within the given time, by the predicted ends of running jobs."),
)  # fmt: skip
PREDICTIONS: Final = (
    Declaration("scalewatch_predicted_run_time_seconds", (*APPLICATION, Label("n"), _LEVEL),
        "Predicted run time at size n; level 0.5 is the prediction, 0.05 and 0.95 are the ends of the 90 % band."),
    Declaration("scalewatch_prediction_coverage_ratio", APPLICATION,
        "Share of runs inside the 90 % band that was published before the run ended."),
    Declaration("scalewatch_prediction_error_ratio", APPLICATION,
        "Median relative error of the run times that were published before the run ended."),
    Declaration("scalewatch_prediction_runs", (*APPLICATION, Label("use", ("learned", "scored"))),
        "Runs that a prediction learned from (learned), and runs that measured its coverage and error (scored)."),
    Declaration("scalewatch_prediction_horizon_coverage_ratio", (*APPLICATION, _HORIZON),
        "Share of runs inside the published 90 % band, by distance of their size from the sizes run before; from 20 runs on."),
    Declaration("scalewatch_useful_size", (*APPLICATION, Label("criterion", USEFUL)),
        "Recommended sizes in the unit of the application, by criterion: largest useful, knee, half efficiency, least energy, least energy times run time, and the size beyond which the application slows down."),
    Declaration("scalewatch_reliability", (*APPLICATION, Label("verdict", VERDICTS)),
        "1 for the current verdict on the predictions of an application."),
    Declaration("scalewatch_applications", (Label("status", ("shown", "left_out", "stale")),),
        "Applications with a prediction: exported (shown), beyond metrics.applications_max (left_out), or outdated (stale)."),
    *ALERTS,
)  # fmt: skip
UNDER_LOAD: Final = (
    Declaration("scalewatch_under_load_run_time_seconds", (*APPLICATION, _LEVEL),
        "Predicted run time under the current load, at the last size run on the usual partition of the application; levels as in scalewatch_predicted_run_time_seconds."),
    Declaration("scalewatch_under_load_factor", (*APPLICATION, Label("moment", ("now", "usual"))),
        "Factor by which load lengthens the run time: now, and usually while the curve was learned."),
    Declaration("scalewatch_under_load_in_range_ratio", APPLICATION,
        "Share of runs inside the range that was predicted under load when they started."),
)  # fmt: skip
HOSTS: Final = (
    Declaration("scalewatch_host_window", (*_RESOURCE, Label("stat", ("mean", "low", "high", "q05", "q50", "q95"))),
        "Statistics of a host resource over the last five minutes, in the unit of the resource; mean is over the last minute."),
    Declaration("scalewatch_host_window_samples", _RESOURCE, "Samples of a host resource in the last five minutes."),
    Declaration("scalewatch_host_forecast", _RESOURCE, "Forecast of the next 10-second mean of a host resource."),
    Declaration("scalewatch_host_forecast_level", (*_RESOURCE, _LEVEL),
        "Quantiles of the forecast of a host resource, from the latest hundred forecast errors."),
    Declaration("scalewatch_host_anomaly_score", _RESOURCE,
        "Latest anomaly score of a host resource from 0 to 1; resource * is the whole host."),
    Declaration("scalewatch_hosts_shown", (), "Hosts with their own series in this export."),
    Declaration("scalewatch_hosts_left_out", (),
        "1 if hosts or resources have no series because a limit is reached, else 0."),
)  # fmt: skip
METRICS: Final = (*AGENT, *HEALTH, *SOURCES, *JOBS, *PREDICTIONS, *UNDER_LOAD, *POWER, *HOSTS)


def rows() -> tuple[tuple[str, str, tuple[str, ...], str], ...]:
    """Return name, kind, label names and help of each metric, for the reference page."""
    return tuple((entry.name, entry.kind, entry.label_names, entry.help) for entry in METRICS)
