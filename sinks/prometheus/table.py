"""Every metric of the product, declared once. Names follow Prometheus' practice: base units, `_total` for counters."""

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
    """A label: its closed list of values, the name of the list that the wiring hands in, or neither.

    A label with neither takes names of users; only collectors with a bound of their own may have one.
    """

    name: str
    values: tuple[str, ...] = ()
    given_as: ListName | None = None


class Declaration(msgspec.Struct, frozen=True):
    """A metric: name, kind, help, labels, and the buckets of a histogram."""

    name: str
    kind: Kind
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in order."""
        return tuple(label.name for label in self.labels)


APPLICATION: Final = (Label("application"), Label("system"), Label("input"), Label("unit"))
KINDS: Final = ("anomaly", "reliability")
SEVERITIES: Final = ("info", "warning", "critical")
SUBJECT: Final = (*APPLICATION, Label("n"), Label("host"), Label("partition"), Label("rack"))
TARGETS: Final = ("run_time_s", "system_power_w", "cpu_power_w", "memory_power_w", "gpu_power_w")
_LEVEL: Final = Label("level", values=("0.05", "0.5", "0.95"))
_TARGET: Final = Label("target", values=TARGETS)
FEATURE_KINDS: Final = ("attributes", "placement", "communication", "adapters", "shared_communication")
_FEATURES: Final = Label("features", values=FEATURE_KINDS)
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
OTHER: Final = "other"  # a value outside its closed list is counted here: a metric must never stop the agent
FIT_BUCKETS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
WORK_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PROFILES: Final = ("learned", "no_telemetry", "coverage", "not_completed", "not_identified", "end_late")
USEFUL: Final = ("max", "knee", "half_efficiency", "least_energy", "least_energy_delay", "slower_beyond")
_ROLE: Final = Label("role", values=ROLES)
_HORIZON: Final = Label("horizon", values=HORIZONS)
_INTERVAL: Final = Label("interval", values=("1", "2", "3", "4", "5"))
_TENTH: Final = Label("tenth", values=tuple(str(number) for number in range(1, 11)))
_PARTITION: Final = (Label("system"), Label("partition"))
_HOST: Final = (Label("system"), Label("host"))
_RESOURCE: Final = (*_HOST, Label("resource"))

ALERTS: Final = (
    Declaration(
        "scalewatch_alerts", "gauge", "Alerts by kind, severity and status.",
        (Label("kind", values=KINDS), Label("severity", values=SEVERITIES),
        Label("status", values=("pending", "firing", "resolved"))),
    ),
    Declaration(
        "scalewatch_alert_firing", "gauge",
        "Firing alerts by name and what they are about: of each the labels that it has, the most severe ones first.",
        (Label("alertname"), Label("kind", values=KINDS), Label("severity", values=SEVERITIES), *SUBJECT),
    ),
)  # fmt: skip
POWER: Final = (
    Declaration(
        "scalewatch_predicted_power_watts", "gauge",
        "Predicted power of all hosts of a run together at a size; 0.05 and 0.95 are the ends of its band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_predicted_energy_joules", "gauge",
        "Predicted energy of a whole run at a size; 0.05 and 0.95 are the ends of its band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_power_error_ratio", "gauge",
        "Median relative error of power by size, of runs that were predicted before they were learned.", APPLICATION,
    ),
    Declaration(
        "scalewatch_power_coverage_ratio", "gauge", "Share of these runs whose power was inside the 90 % band.",
        APPLICATION,
    ),
    Declaration(
        "scalewatch_power_source_ratio", "gauge",
        "Share of the host-minutes of runs whose power a sensor measured, and share that was estimated from counters.",
        (*APPLICATION, Label("source", values=("measured", "estimated"))),
    ),
    Declaration(
        "scalewatch_profile_error_ratio", "gauge",
        "Median relative error of predictions from counters, of runs that were not learned yet.",
        (*APPLICATION, _TARGET),
    ),
    Declaration(
        "scalewatch_profile_coverage_ratio", "gauge", "Share of these runs inside the 90 % band.",
        (*APPLICATION, _TARGET),
    ),
    Declaration(
        "scalewatch_profile_correlation", "gauge",
        "Rank correlation of a counter with a target, of the counters that move what is expected of it most.",
        (*APPLICATION, _TARGET, Label("counter")),
    ),
    Declaration(
        "scalewatch_profile_coefficient", "gauge",
        "Effect of such a counter: deviations of the target for one deviation of the counter.",
        (*APPLICATION, _TARGET, Label("counter")),
    ),
)  # fmt: skip
FEATURES: Final = (
    Declaration(
        "scalewatch_feature_error_ratio", "gauge",
        "Mean error of run times of runs that were not learned yet: from features, from the curve alone, and from both.",
        (*APPLICATION, _FEATURES, Label("of", values=("features", "curve", "both"))),
    ),
    Declaration(
        "scalewatch_feature_weight_ratio", "gauge", "Share that features have in a prediction of a run that reports them.",
        (*APPLICATION, _FEATURES),
    ),
    Declaration(
        "scalewatch_feature_coverage_ratio", "gauge", "Share of these runs inside the 90 % band of both together.",
        (*APPLICATION, _FEATURES),
    ),
    Declaration(
        "scalewatch_feature_rank_correlation", "gauge",
        "Share of pairs of the newest runs that are ordered as predicted (RCC): of a tie the first counts as above, or ties as half.",
        (*APPLICATION, _FEATURES, Label("ties", values=("first", "half"))),
    ),
    Declaration(
        "scalewatch_feature_r_squared", "gauge", "Share of the variance of the newest runs that features explain.",
        (*APPLICATION, _FEATURES),
    ),
    Declaration(
        "scalewatch_feature_importance_ratio", "gauge", "Share of a feature in what the model explains, of the largest few.",
        (*APPLICATION, _FEATURES, Label("feature")),
    ),
)  # fmt: skip
AGENT: Final = (
    Declaration(
        "scalewatch_events_total", "counter",
        "Events by what became of them: received = processed + rejected + dropped; repeated is a part of processed.",
        (_ROLE, Label("format", given_as="formats"), Label("outcome", values=EVENT_OUTCOMES)),
    ),
    Declaration(
        "scalewatch_dead_letters_total", "counter", "Messages, or parts of them, that could not be used, by reason.",
        (Label("reason", given_as="reasons"),),
    ),
    Declaration(
        "scalewatch_samples_left_out_total", "counter", "Measurements of hosts that are in no window, by reason.",
        (Label("reason", values=SAMPLES_LEFT_OUT),),
    ),
    Declaration(
        "scalewatch_source_dead_letters_total", "counter",
        "Messages of sources, or parts of them, that could not be used, by the topic or pattern of the configuration.",
        (Label("source", given_as="sources"),),
    ),
    Declaration(
        "scalewatch_source_records_deleted_total", "counter",
        "Records of sources that were deleted before they were read, by the topic or pattern of the configuration; up to "
        "some minutes before a stop may be among them that were read.", (Label("source", given_as="sources"),),
    ),
    Declaration("scalewatch_collector_host_records_total", "counter", "Records written into the journal: one of each host and minute."),
    Declaration("scalewatch_collector_series", "gauge", "Resources of hosts that have a window in this collector."),
    Declaration(
        "scalewatch_collector_partitions_waiting", "gauge",
        "Partitions of sources that are not read because the schema of their next message has to be looked up first.",
    ),
    Declaration(
        "scalewatch_time_held_back_seconds", "gauge",
        "How far a collector holds back the time of all learners: its sources are behind, or come late. Zero up to a minute.",
    ),
    Declaration(
        "scalewatch_schema_lookups_total", "counter", "Questions to the schema registry, by outcome.",
        (Label("outcome", values=("found", "absent", "failed")),),
    ),
    Declaration(
        "scalewatch_processor_faults_total", "counter", "Events that a processor failed on, by processor.",
        (Label("processor", given_as="processors"),),
    ),
    Declaration(
        "scalewatch_emissions_total", "counter", "Records sent to output topics, tombstones included.",
        (Label("topic", values=OUTPUTS),),
    ),
    Declaration(
        "scalewatch_outputs_unreadable_total", "counter",
        "Records of output topics that were left out when they were read, because they are no messages of this version.",
        (Label("topic", values=OUTPUTS),),
    ),
    Declaration(
        "scalewatch_bounds_hit_total", "counter",
        "Times a bound was reached and something was evicted, refused or deferred.", (Label("bound", values=BOUNDS),),
    ),
    Declaration(
        "scalewatch_runs_refused_total", "counter", "Reports of runs that changed no model, by reason.",
        (Label("reason", values=REFUSALS),),
    ),
    Declaration(
        "scalewatch_recent_runs", "gauge", "Settled runs that readers can ask for: the newest, at most 20,000.",
    ),
    Declaration(
        "scalewatch_level_shifts_total", "counter",
        "Applications that became slower or faster for good, as found by their runs; history counts too.",
        (Label("direction", values=DIRECTIONS),),
    ),
    Declaration(
        "scalewatch_runs_explained_total", "counter",
        "Runs that were slow, or drew too much, on a host of which that is known: listed under the host, and no alert of their own.",
        (Label("what", values=("run_time", "power")),),
    ),
    Declaration(
        "scalewatch_alerts_withheld_total", "counter",
        "Alerts that would have fired and were not sent: excluded, in maintenance, of a short run, or in a dry run.",
        (Label("alertname", values=ALERT_NAMES),),
    ),
    Declaration(
        "scalewatch_alerts_resolved_total", "counter",
        "Alerts that had fired and are over, by what ended them: their cause by itself, their host going out of service, "
        "another alert that says more (superseded), or nobody knowing of it any more (forgotten).",
        (Label("alertname", values=ALERT_NAMES), Label("by", values=ALERT_ENDS)),
    ),
    Declaration(
        "scalewatch_profiles_total", "counter",
        "Settled runs by what became of their profiles: learned, or why not; end_late is a part of no_telemetry: "
        "the end was reported after the measurements of their hosts had been evicted.",
        (Label("outcome", values=PROFILES),),
    ),
    Declaration(
        "scalewatch_run_node_seconds_total", "counter",
        "Node-seconds of settled runs by how their energy is known: measured by meters of hosts or of the scheduler, estimated from "
        "counters or split between the jobs of a node, or unknown; what only the curve of an application would tell is unknown here.",
        (Label("energy", values=("measured", "estimated", "unknown")),),
    ),
    Declaration(
        "scalewatch_run_energy_joules_total", "counter",
        "Energy of settled runs whose energy is known, in the shares in which their node-seconds were measured and estimated.",
        (Label("energy", values=("measured", "estimated")),),
    ),
    Declaration(
        "scalewatch_power_estimate_error_watts", "gauge",
        "Median recent error of the power estimated from counters, on hosts with sensors: that of the worst kind "
        "of host, 0 where none is estimated.", (Label("component", values=COMPONENTS),),
    ),
    Declaration(
        "scalewatch_profile_records_late_total", "counter",
        "Records of hosts, one a minute, that came too late for the profile of a run.",
    ),
    Declaration(
        "scalewatch_checkpoints_total", "counter", "Checkpoints by outcome.",
        (Label("outcome", values=CHECKPOINT_OUTCOMES),),
    ),
    Declaration(
        "scalewatch_checkpoint_duration_seconds", "histogram", "Time from the first write to the confirmation.",
        buckets=WORK_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_ticks_refused_total", "counter",
        "Ticks of collectors more than five seconds ahead of the broker's clock: the broker's time counted instead.",
    ),
    Declaration(
        "scalewatch_clock_ahead_seconds", "gauge",
        "How far the clock of this host is ahead of the broker's; negative if behind, 0 while both agree within a minute.",
    ),
    Declaration(
        "scalewatch_topic_faults", "gauge",
        "Faults of the agent's own topics: settings that lose data, copies and rights that are missing.",
    ),
    Declaration(
        "scalewatch_config_loaded_timestamp_seconds", "gauge", "When the configuration in use was read from its file.",
    ),
    Declaration(
        "scalewatch_config_problems", "gauge",
        "Problems that the last reload found: above zero, the configuration before it stays in use.",
    ),
    Declaration(
        "scalewatch_config_keys_waiting", "gauge",
        "Changed keys that the last reload left as they were: they wait for a restart of the agent.",
    ),
    Declaration("scalewatch_restores_total", "counter", "Take-overs of a shard with its state read back."),
    Declaration(
        "scalewatch_restores_without_hosts_total", "counter",
        "Take-overs at which hosts had to be learned anew: the journal no longer held the records since the "
        "checkpoint.",
    ),
    Declaration(
        "scalewatch_state_records", "gauge", "State records held, by processor.",
        (Label("processor", given_as="processors"),),
    ),
    Declaration(
        "scalewatch_fit_duration_seconds", "histogram", "Time to fit the models of one application.",
        buckets=FIT_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_fits_waiting", "gauge",
        "Models that waited for their fit at the last tick: of the user, application or system that most are of, and of "
        "all others.", (Label("lane", values=("longest", "others")),),
    ),
    Declaration(
        "scalewatch_batch_duration_seconds", "histogram", "Time to process one polled batch.",
        (_ROLE,), buckets=WORK_BUCKETS_S,
    ),
    Declaration(
        "scalewatch_alertmanager_posts_total", "counter", "Attempts to send alerts to an Alertmanager.",
        (Label("outcome", values=("sent", "failed")),),
    ),
    Declaration(
        "scalewatch_alertmanager_looks_total", "counter", "Attempts to read the silences of an Alertmanager.",
        (Label("outcome", values=("answered", "failed")),),
    ),
    Declaration(
        "scalewatch_alertmanager_unanswered", "gauge",
        "Alertmanagers whose silences could not be read at the last attempt: what the page shows as silenced may be old.",
    ),
    Declaration("scalewatch_alertmanager_alerts_total", "counter", "Alerts sent to Alertmanagers, repeats included."),
)  # fmt: skip
HEALTH: Final = (
    Declaration("scalewatch_ready", "gauge", "One while the role is ready, else zero.", (_ROLE,)),
    Declaration(
        "scalewatch_role_restarts_total", "counter", "Restarts of a role since the agent was started.", (_ROLE,),
    ),
    Declaration(
        "scalewatch_event_time_lag_seconds", "gauge",
        "Time between the newest tick used and now; below zero the role's time is ahead, by a wrong clock.", (_ROLE,),
    ),
    Declaration("scalewatch_checkpoint_age_seconds", "gauge", "Time since the last confirmed checkpoint.", (_ROLE,)),
)  # fmt: skip
SOURCES: Final = (
    Declaration(
        "scalewatch_source_messages", "gauge",
        "Messages that a source topic ever got; a configured topic that does not exist got none.", (Label("topic"),),
    ),
    Declaration(
        "scalewatch_source_newest_message_timestamp_seconds", "gauge",
        "When the newest message of a source topic came; zero where no message is left.", (Label("topic"),),
    ),
    Declaration(
        "scalewatch_source_silent_threshold_seconds", "gauge",
        "For how long a source topic may be silent, as sources[].silent_s says.", (Label("topic"),),
    ),
)  # fmt: skip
WITHIN: Final = ("1h", "4h", "12h")
JOBS: Final = (
    Declaration(
        "scalewatch_running_jobs", "gauge", "Running jobs by partition: those with a predicted end, and the others.",
        (*_PARTITION, Label("end", values=("predicted", "unknown"))),
    ),
    Declaration(
        "scalewatch_running_jobs_hit_limit", "gauge",
        "Running jobs that will probably run into their time limit, as the list of jobs marks them.", _PARTITION,
    ),
    Declaration(
        "scalewatch_running_nodes", "gauge", "Nodes that running jobs hold, where their producer says how many.", _PARTITION,
    ),
    Declaration(
        "scalewatch_running_nodes_free", "gauge",
        "Nodes of running jobs that will be free within so many hours, by the predicted ends of these jobs.",
        (*_PARTITION, Label("within", values=WITHIN)),
    ),
)  # fmt: skip
PREDICTIONS: Final = (
    Declaration(
        "scalewatch_predicted_run_time_seconds", "gauge",
        "Predicted run time at a size; level 0.5 is the prediction, 0.05 and 0.95 are the ends of its band.",
        (*APPLICATION, Label("n"), _LEVEL),
    ),
    Declaration(
        "scalewatch_prediction_coverage_ratio", "gauge",
        "Share of runs inside the 90 % band that was published before they ended.", APPLICATION,
    ),
    Declaration(
        "scalewatch_prediction_error_ratio", "gauge",
        "Median relative error of the predictions that were published before the runs ended.", APPLICATION,
    ),
    Declaration(
        "scalewatch_prediction_runs", "gauge",
        "Runs that the prediction has learned from, and those that scored it: coverage and error rest on the latter.",
        (*APPLICATION, Label("use", values=("learned", "scored"))),
    ),
    Declaration(
        "scalewatch_prediction_horizon_coverage_ratio", "gauge",
        "The same coverage, by how far the size lay outside the sizes that had been run; none before 20 runs were scored.",
        (*APPLICATION, _HORIZON),
    ),
    Declaration(
        "scalewatch_prediction_horizon_runs", "gauge",
        "Runs that were scored at a horizon: its coverage rests on these.", (*APPLICATION, _HORIZON),
    ),
    Declaration(
        "scalewatch_prediction_pit_ratio", "gauge",
        "Share of runs in each tenth of the distribution that was published before they ended, by how far out the size "
        "lay; 0.1 each is ideal.", (*APPLICATION, _HORIZON, _TENTH),
    ),
    Declaration(
        "scalewatch_prediction_pinball_ratio", "gauge",
        "Mean pinball loss of the ends of the 90 % band, in parts of the run time (its natural logarithm), by how far out "
        "the size lay.", (*APPLICATION, _HORIZON, Label("end", values=("low", "high"))),
    ),
    Declaration(
        "scalewatch_member_weight", "gauge",
        "Weight of a law of run time in the prediction of the application, beyond its largest size.",
        (*APPLICATION, Label("member")),
    ),
    Declaration(
        "scalewatch_member_error_ratio", "gauge",
        "Mean error, in ln of the run time, of a law and of what was published, on the runs that came after.",
        (*APPLICATION, Label("member"), _HORIZON),
    ),
    Declaration(
        "scalewatch_fluctuation_ratio_max", "gauge",
        "Largest step up of ADEPT's metric R from one interval between sizes to the next: above 1.1 a size between may be slow.",
        APPLICATION,
    ),
    Declaration(
        "scalewatch_useful_size", "gauge",
        "Sizes worth asking for, in the unit of the application: the largest, the knee, at half efficiency, that "
        "of least energy of a run, and of least energy times run time.",
        (*APPLICATION, Label("criterion", values=USEFUL)),
    ),
    Declaration(
        "scalewatch_reliability", "gauge", "One at the current verdict on the predictions of the application.",
        (*APPLICATION, Label("verdict", values=VERDICTS)),
    ),
    Declaration(
        "scalewatch_applications", "gauge", "Applications with a prediction: shown here, left out by the bound, stale.",
        (Label("status", values=("shown", "left_out", "stale")),),
    ),
    *ALERTS,
)  # fmt: skip
UNDER_LOAD: Final = (
    Declaration(
        "scalewatch_under_load_run_time_seconds", "gauge",
        "Run time under the load of the moment, at the size run last on the partition where the application "
        "usually runs.", (*APPLICATION, _LEVEL),
    ),
    Declaration(
        "scalewatch_under_load_factor", "gauge",
        "By which factor load stretches the run time of a quiet machine: now, and when the curve was learned.",
        (*APPLICATION, Label("moment", values=("now", "usual"))),
    ),
    Declaration(
        "scalewatch_under_load_monte_carlo_gap_ratio", "gauge",
        "How far the arithmetic of a structural model is from draws, in parts of the range.", APPLICATION,
    ),
    Declaration(
        "scalewatch_under_load_in_range_ratio", "gauge",
        "Share of runs within the range that was predicted at their start.", APPLICATION,
    ),
    Declaration(
        "scalewatch_under_load_interval_ratio", "gauge",
        "Share of runs in each of the five intervals, and the share that had been expected there.",
        (*APPLICATION, _INTERVAL, Label("kind", values=("observed", "expected"))),
    ),
    Declaration(
        "scalewatch_under_load_crps_ratio", "gauge",
        "Continuous ranked probability score under load over that of the plain band; below 1, the load improves it.",
        APPLICATION,
    ),
    Declaration(
        "scalewatch_under_load_pit_ratio", "gauge",
        "Share of runs in each tenth of the predicted probability; 0.1 each is ideal.", (*APPLICATION, _TENTH),
    ),
)  # fmt: skip
HOSTS: Final = (
    Declaration(
        "scalewatch_host_window", "gauge",
        "The last five minutes of a resource of a host: ends and quantiles, and the mean of the last minute, in "
        "its unit.", (*_RESOURCE, Label("stat", values=("mean", "low", "high", "q05", "q50", "q95"))),
    ),
    Declaration(
        "scalewatch_host_window_samples", "gauge", "Samples of a resource in its last five minutes.", _RESOURCE,
    ),
    Declaration(
        "scalewatch_host_variation", "gauge", "One at the class of variation of a resource that is a share (0 to 1).",
        (*_RESOURCE, Label("variation", values=("low", "medium", "high"))),
    ),
    Declaration(
        "scalewatch_host_forecast", "gauge", "Forecast of the next mean over 10 seconds of a resource.", _RESOURCE,
    ),
    Declaration("scalewatch_host_forecast_error", "gauge", "Standard error of that forecast.", _RESOURCE),
    Declaration(
        "scalewatch_host_forecast_level", "gauge",
        "Quantiles of that forecast, by the latest hundred errors of the resource's own forecasts.",
        (*_RESOURCE, _LEVEL),
    ),
    Declaration(
        "scalewatch_host_anomaly_score", "gauge",
        "Latest anomaly score of a resource, 0 to 1; the resource * is the whole host.", _RESOURCE,
    ),
    Declaration("scalewatch_hosts_shown", "gauge", "Hosts with series of their own here."),
    Declaration(
        "scalewatch_hosts_left_out", "gauge",
        "One while hosts or resources of a host have no series because of a bound.",
    ),
)  # fmt: skip
METRICS: Final = (*AGENT, *HEALTH, *SOURCES, *JOBS, *PREDICTIONS, *UNDER_LOAD, *POWER, *FEATURES, *HOSTS)


def rows() -> tuple[tuple[str, str, tuple[str, ...], str], ...]:
    """Return name, kind, label names and help of every metric: the reference page is made of these."""
    return tuple((entry.name, entry.kind, entry.label_names, entry.help) for entry in METRICS)
