"""From the configuration to the parts: what each role is handed."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

import msgspec

from agent import __version__
from agent.app.privacy import privacy
from agent.app.windows import make_windows
from agent.collector.routes import Refusal, Routes, Source
from agent.config.hash import config_hash
from agent.config.references import references
from agent.config.sources import MetricMapping, Telemetry
from agent.config.sources import Source as SourceSettings
from agent.config.tree import Config
from agent.contracts.decoding import DeadLetter
from agent.contracts.errors import InvalidInputError
from agent.contracts.events import Origin
from agent.contracts.measures import ROLE_REASONS
from agent.contracts.outputs import Emission, Message
from agent.decode.dead_letter import dead_letter
from agent.decode.options import DecodeOptions
from agent.decode.reasons import REASONS
from agent.decode.registry import DECODERS, TELEMETRY
from agent.decode.telemetry.metric import Metric
from agent.decode.telemetry.options import CONVERSIONS, TelemetryOptions
from agent.identify import Identifier
from agent.learner.plan import Plan
from agent.log.kafka_settings import KafkaSecurity, KafkaSettings, Protocol
from agent.metrics.registry import Metrics
from processors.fold.desk import FoldSettings, Tombstone
from processors.fold.kinds import PROCESSORS
from processors.fold.shard import Shard
from processors.windows.settings import WindowSettings
from sinks.encode import Output, emission, tombstone

FORMATS: Final = (*dict.fromkeys((*DECODERS, *TELEMETRY)), "journal")
PART_HOSTS: Final = 250  # whose minutes are written at one go; nothing is read meanwhile, so it must be quick
PROTOCOLS: Final[dict[str, Protocol]] = {
    "plaintext": "PLAINTEXT",
    "tls": "SSL",
    "sasl_plaintext": "SASL_PLAINTEXT",
    "sasl_tls": "SASL_SSL",
}


def metrics() -> Metrics:
    """Return the metrics object of a process, with every closed list of labels in it."""
    return Metrics(formats=FORMATS, reasons=(*REASONS, *ROLE_REASONS), processors=PROCESSORS)


def make_shard(config: Config) -> Shard:
    """Return an empty fold of one shard."""
    settings = FoldSettings(
        jobs=config.jobs,
        run_time=config.run_time,
        alerts=config.alerts,
        agent_version=__version__,
        hosts=config.hosts,
        under_load=config.under_load,
        profiles=config.profiles,
        features=config.features,
    )
    return Shard(settings, Identifier(config.identification).identify)


def routes(config: Config) -> Routes:
    """Return what collectors are handed."""
    return Routes(
        topics=tuple(topic for source in config.sources for topic in source.topics),
        source=_source_of(config),
        partition=config.journal_partition,
        privacy=privacy(config.privacy),
        dead_letter=_refused,
        windows=make_windows(window_settings(config), config.collector.series_max),
        journal_topic=config.topics.journal,
        journal_partitions=config.topics.journal_partitions,
        deadletter_topic=config.topics.deadletters,
        group=config.collector.group,
        tick_ms=round(config.collector.tick_s * 1000),
        flush_timeout_s=config.collector.flush_timeout_s,
        commit_s=config.collector.commit_s,
    )


def plan(config: Config) -> Plan:
    """Return what learners are handed."""
    return Plan(
        journal_topic=config.topics.journal,
        journal_partitions=config.topics.journal_partitions,
        group=config.learner.group,
        topics=output_topics(config),
        make_fold=partial(make_shard, config),
        encode=encode,
        dead_letter=_unfolded,
        agent_version=__version__,
        config_hash=config_hash(config),
        checkpoint_interval_s=config.learner.checkpoint_interval_s,
        checkpoint_records_max=config.learner.checkpoint_records_max,
        host_checkpoint_interval_s=config.learner.host_checkpoint_interval_s,
        flush_timeout_s=config.learner.flush_timeout_s,
    )


def output_topics(config: Config) -> Mapping[str, str]:
    """Return the topic of each kind of output."""
    kinds = ("predictions", "job_predictions", "answers", "alerts", "runs", "deadletters")
    return {kind: getattr(config.topics, kind) for kind in kinds}


def encode(message: Message | DeadLetter | Tombstone) -> Emission:
    """Return the record of a message."""
    if isinstance(message, Tombstone):
        return tombstone(message.kind, message.key)
    return emission(cast("Output", message))


def decode_options(config: Config, source: SourceSettings | None = None) -> DecodeOptions:
    """Return the decoder options of a source."""
    keep = source.keep if source else None
    return DecodeOptions(
        default_system=source.system if source else None,
        keep_script=keep.script if keep else False,
        keep_comment=keep.comment if keep else False,
        keep_paths=keep.paths if keep else False,
        max_message_bytes=config.collector.max_message_bytes,
    )


def file_options(config: Config, timezone: str) -> DecodeOptions:
    """Return the decoder options of event files; jobs that name no system belong to ``local``."""
    return msgspec.structs.replace(decode_options(config), default_system="local", timezone=timezone)


def kafka_settings(config: Config) -> KafkaSettings:
    """Return how to reach the broker."""
    given = config.kafka.security
    security = KafkaSecurity(
        protocol=PROTOCOLS[given.protocol],
        mechanism=given.mechanism,
        username=given.username,
        password=given.password.get_secret_value() if given.password else None,
        ca_file=given.ca_file,
        certificate_file=given.cert_file,
        key_file=given.key_file,
    )
    return KafkaSettings(
        bootstrap=config.kafka.bootstrap,
        client_id=config.kafka.client_id,
        security=security,
        state_topic=config.topics.state,
        compression=config.kafka.compression,
        replication_factor=config.topics.replication,
        checkpoint_timeout_s=config.learner.deadline_s,
        poll_records_max=config.collector.poll_records_max,
        session_timeout_s=config.kafka.session_timeout_s,
    )


def window_settings(config: Config) -> WindowSettings:
    """Return how windows are kept."""
    return WindowSettings(late_max_s=config.collector.late_max_s, part_hosts=PART_HOSTS)


def telemetry_options(config: Config, source: SourceSettings | None = None) -> TelemetryOptions:
    """Return the options of the decoders of a source's telemetry, the defaults without one."""
    given, known = Telemetry() if source is None else source.telemetry, references(config.reference)
    nodes = known.nodes.among(config.identification.systems_by_alias)
    return TelemetryOptions(
        decode=decode_options(config, source),
        nodes=nodes,
        hosts=nodes.components((source.system if source else None) or ""),
        sensors=known.sensors,
        resources=frozenset(given.resources),
        metrics=tuple(_metric(mapping) for mapping in given.metrics),
        counters=given.counters,
        counters_cumulative=given.counters_cumulative,
        host_cpus=given.host_cpus,
        short_hosts=given.short_hosts,
        time_unit=given.time_unit,
    )


def source_decoders(config: Config, source: SourceSettings) -> Source:
    """Return the decoders of a source."""
    decode, telemetry = DECODERS.get(source.format), TELEMETRY.get(source.format)
    return Source(
        source.format,
        None if decode is None else decode(decode_options(config, source)),
        None if telemetry is None else partial(telemetry, telemetry_options(config, source)),
    )


def _metric(given: MetricMapping) -> Metric:
    convert = None if given.unit is None else CONVERSIONS[given.unit]
    only = tuple(given.only.items())
    return Metric(
        given.measurement,
        given.field,
        given.resource,
        convert,
        only=only,
        instance=given.instance,
        peer=given.peer,
        part=given.part,
    )


def _source_of(config: Config) -> Callable[[str], Source]:
    made = [(source.topics, source_decoders(config, source)) for source in config.sources]
    known: dict[str, Source] = {}

    def find(topic: str) -> Source:
        if topic not in known:
            known[topic] = next(source for topics, source in made if any(matches(pattern, topic) for pattern in topics))
        return known[topic]

    return find


def matches(pattern: str, topic: str) -> bool:
    """Tell whether a topic is one of those that a source's pattern names."""
    return re.match(pattern, topic) is not None if pattern.startswith("^") else pattern == topic


def _refused(refusal: Refusal) -> DeadLetter:
    origin = refusal.origin
    return dead_letter(
        origin.topic,
        origin.partition,
        origin.offset,
        refusal.index,
        format_name=refusal.format,
        value=refusal.value,
        error=refusal.error,
        timestamp_ms=refusal.timestamp_ms,
    )


def _unfolded(origin: Origin, value: bytes, error: Exception) -> DeadLetter:
    detail = f"A processor raised {type(error).__name__}: {str(error)[:200]}"
    return dead_letter(
        origin.topic,
        origin.partition,
        origin.offset,
        0,
        format_name="journal",
        value=value,
        error=InvalidInputError("processor", detail),
        timestamp_ms=0,
    )
