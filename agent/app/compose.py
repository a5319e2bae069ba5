"""The composition root: makes the components of each role from the configuration."""

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, partial
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final, cast

import msgspec

from agent.app.logs import Outage, logger
from agent.clock import Clock
from agent.collector.collector import Fact, Privacy, Routes
from agent.collector.reading import SourceDecoders, SourceWindows
from agent.collector.sources import TOPICS_MAX
from agent.config.references import references, with_machines, with_windows
from agent.config.roles import PrivacySettings, TokenSettings
from agent.config.tree import Config, config_hash
from agent.config.tree import Source as SourceSettings
from agent.decode.avro import AvroMessages, Schemas
from agent.decode.formats import DECODERS, FORMATS, TELEMETRY
from agent.decode.guard import guarded, guarded_samples, opening, opening_slices
from agent.decode.message import REASONS, DecodeOptions, HostsReported, Missed, TelemetryOptions, dead_letter
from agent.identify import Identifier, LeftOut, bounded
from agent.learner.shard import LearnerPlan
from processors import __version__
from processors.contracts.errors import ConfigError
from processors.contracts.events import (
    DeadLetter,
    HostMinute,
    HostState,
    JobProfile,
    Network,
    PredictionRequested,
)
from processors.contracts.log import topic_pattern
from processors.contracts.nodes import HostPlace, Racks
from processors.contracts.outputs import Emission, Message, Tombstone
from processors.contracts.service import ROLE_REASONS, SILENT_S, Measures
from processors.contracts.telemetry import Telemetry
from processors.windows.settings import WindowSettings
from sinks.prometheus.registry import Metrics
from sinks.topics import KINDS, Output, emission, tombstone

if TYPE_CHECKING:  # other processes never process the journal, and its code imports 130 modules
    from processors.features.placements import Placements
    from processors.pipeline.shard import Shard
    from processors.pipeline.state import CoefficientsOf
    from sinks.web.access import Access, Token

FORMAT_LABELS: Final = ("auto", *FORMATS, "journal")
USERS_REMEMBERED: Final = 16_384
RACKS_REMEMBERED: Final = 2  # cached rack lists (the second is used during a reload); a list may name 200,000 hosts
# number of hosts whose minutes are written in one part; reading waits for each part, so writing a part must be quick
PART_HOSTS: Final = 250


def privacy(settings: PrivacySettings) -> Privacy:
    """Return the function that truncates the long texts of an event, and replaces or drops its user name as configured."""
    user_text = user_names(settings)

    def rewrite(event: Fact, /, left_out: LeftOut = bool) -> Fact:
        if isinstance(event, HostState | HostMinute | Network | JobProfile):  # events of hosts name no user
            return event
        evidence = bounded(event.evidence, left_out)
        if evidence.user is not None and settings.users != "plain":
            evidence = msgspec.structs.replace(evidence, user=user_text(evidence.user))
        return event if evidence is event.evidence else msgspec.structs.replace(event, evidence=evidence)

    return rewrite


def question_privacy(config: Config) -> Callable[[PredictionRequested], PredictionRequested]:
    """Return the function that removes from a prediction request the fields that are also removed from jobs, so that rules treat both alike."""
    rewrite, dropped = privacy(config.privacy), dict.fromkeys(config.dropped_fields)

    def rewritten(question: PredictionRequested) -> PredictionRequested:
        evidence = msgspec.structs.replace(question.evidence, **dropped)
        return rewrite(msgspec.structs.replace(question, evidence=evidence))

    return rewritten


def user_names(settings: PrivacySettings) -> Callable[[str], str | None]:
    """Return the function that maps a user name to the text for the journal, or to None if user names are dropped."""
    salt = settings.salt.get_secret_value().encode()
    functions: dict[str, Callable[[str], str | None]] = {
        "plain": str,
        "hash": lambda user: hashed(user, salt),
        "drop": lambda _user: None,
    }
    return functions[settings.users]


@lru_cache(maxsize=USERS_REMEMBERED)
def hashed(user: str, salt: bytes) -> str:
    """Return the pseudonym of a user, which depends only on `user` and `salt`. Pseudonyms are cached because users recur."""
    return "u-" + hmac.new(salt, user.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]


def access(config: Config) -> "Access | None":
    """Return the access rules of the pages; None if everybody may read everything."""
    from sinks.web.access import Access, Reader, Token, token_digest  # noqa: PLC0415 - only pages need it

    configured, user_text = config.http.access, user_names(config.privacy)
    if not configured.limits:
        return None
    operators = frozenset(configured.operators)

    def token(entry: TokenSettings) -> "Token":
        user = None if entry.user is None else user_text(entry.user)
        return Token(
            token_digest(entry.token.get_secret_value().encode()),
            Reader(user, entry.operator or entry.user in operators),
        )

    return Access(
        tokens=tuple(map(token, configured.tokens)),
        user_header=configured.user_header,
        trusted_proxies=tuple(ip_network(text, strict=False) for text in configured.trusted_proxies),
        operators=operators,
        written=user_text,
        metrics_open=configured.metrics == "open",
    )


def metrics(config: Config | None = None, *, folds: bool = True) -> Metrics:
    """Return the metrics of a process, with the allowed values of their labels.

    The label for processors has values only if `folds` is true, that is, if the process runs the processors.
    """
    sources = () if config is None else wanted_topics(config)
    processors: tuple[str, ...] = ()
    if folds:
        from processors.pipeline.shard import PROCESSORS as processors  # noqa: PLC0415, N811 - only a fold needs them
    return Metrics(formats=FORMAT_LABELS, reasons=(*REASONS, *ROLE_REASONS), processors=processors, sources=sources)


def make_shard(config: Config, coefficients_of: "CoefficientsOf | None" = None) -> "Shard":
    """Return the empty state of one shard. `coefficients_of` returns the initial coefficients of an application, by default the shipped ones."""
    from processors.pipeline.shard import Shard  # noqa: PLC0415 - only a fold needs it
    from processors.pipeline.state import FoldSettings, shipped  # noqa: PLC0415

    files = references(config.reference)
    settings = FoldSettings(
        jobs=config.jobs,
        run_time=with_machines(config.run_time, files.nodes),
        alerts=with_windows(config.alerts, files.maintenance, config.systems_by_alias),
        agent_version=__version__,
        hosts=config.hosts,
        under_load=config.under_load,
        profiles=config.profiles,
        features=config.features,
        external_url=str(config.alertmanager.external_url or ""),
        racks=racks(config),
        placements=_placements(files.topology),
    )
    return Shard(settings, Identifier(config.identify, config.systems_by_alias).identify, coefficients_of or shipped)


def racks(config: Config) -> Racks:
    """Return the map from hosts to racks for alerts and pages; all shards of a process share one object."""
    return _racks(references(config.reference).racks, config.alerts.rack_anomaly.pattern)


_racks: Final = lru_cache(maxsize=RACKS_REMEMBERED)(Racks)


@lru_cache(maxsize=RACKS_REMEMBERED)
def _placements(listed: tuple[HostPlace, ...]) -> "Placements":
    from processors.features.placements import Placements  # noqa: PLC0415 - only a fold needs it

    return Placements(listed)


def schemas(config: Config, measures: Measures, clock: Clock) -> Schemas:
    """Return the schemas of Avro messages. If a registry is configured, a thread fetches schemas from it until `close` is called."""
    settings = config.schema_registry
    if settings.url is None:
        return Schemas(settings.texts)
    from agent.collector.registry import SchemaRegistry  # noqa: PLC0415 - with the HTTP client

    outage = Outage("schema registry", logger("collector"), clock)
    return SchemaRegistry(settings, outage, measures, clock)


def routes(config: Config, schemas: Schemas | None = None) -> Routes:
    """Return the settings of collectors: topics, and how to decode each source. Without `schemas`, only configured Avro schemas are known."""
    return Routes(
        config=config,
        topics=wanted_topics(config),
        source=_source_of(config, schemas),
        source_name=partial(_source_name, config),
        privacy=privacy(config.privacy),
        windows=partial(SourceWindows, settings=window_settings(config), series_max=config.collector.series_max),
        hold_back_max_s=config.collector.hold_back_max_s,
        dead_letter=dead_letter,
        deadletter_bytes_per_s_max=config.collector.deadletter_bytes_per_s_max,
    )


def wanted_topics(config: Config) -> tuple[str, ...]:
    """Return the names and patterns of the topics of all sources."""
    return tuple(dict.fromkeys(topic for source in config.sources for topic in source.topics))


def plan(config: Config) -> LearnerPlan:
    """Return the settings of learners."""
    return LearnerPlan(
        journal_topic=config.topics.journal,
        journal_partitions=config.topics.journal_partitions,
        group=config.learner_group,
        topics=output_topics(config),
        make_fold=partial(make_shard, config),
        encode=encode,
        agent_version=__version__,
        config_hash=config_hash(config),
        is_source=lambda topic: any(_named(config, topic)),
        checkpoint_interval_s=config.learner.checkpoint_interval_s,
        host_checkpoint_interval_s=config.learner.host_checkpoint_interval_s,
        dead_letter=dead_letter,
        deadletter_bytes_per_s_max=config.collector.deadletter_bytes_per_s_max,
    )


def output_topics(config: Config) -> Mapping[str, str]:
    return {kind: getattr(config.topics, kind) for kind in KINDS}


def encode(message: Message | DeadLetter | Tombstone) -> Emission:
    """Return the record for the output topic of a message; a Tombstone gives a record without a value."""
    if isinstance(message, Tombstone):
        return tombstone(message.kind, message.key)
    return emission(cast("Output", message))


def decode_options(config: Config, source: SourceSettings | None = None) -> DecodeOptions:
    return DecodeOptions(
        default_system=source.system if source else None,
        keep=source.keep if source else config.retained,
        max_message_bytes=config.collector.max_message_bytes,
    )


def systems_of_files(config: Config) -> tuple[str, ...]:
    """Return the systems to which a running agent could assign a record without a system.

    If all Slurm sources have the same system, or without Slurm sources all sources, only this system is possible. Otherwise,
    all configured systems are possible.
    """
    of_slurm = {source.system for source in config.sources if source.format == "slurm"}
    of_all = dict.fromkeys(source.system for source in config.sources)
    if len(of_slurm or of_all) == 1 and (system := next(iter(of_slurm or of_all))):
        return (system,)
    return tuple(config.systems) or tuple(system for system in of_all if system)


def file_options(
    config: Config, timezone: str, system: str | None = None, *, unnamed: str | None = "local"
) -> DecodeOptions:
    """Return the decoder options of files.

    A record without a system gets `system`. If `system` is None, the record gets the system that `systems_of_files` returns, or
    none if it returns several; if the configuration has neither systems nor sources, the record gets `unnamed`. Raise
    ConfigError if the configuration does not list `system`.
    """
    if system is not None and config.journal_partition(system) is None:
        raise ConfigError(
            f"The configuration does not list the system {system!r}; it lists {', '.join(config.systems)}."
        )
    possible = systems_of_files(config)
    if not possible and not config.sources and unnamed is not None:
        possible = (unnamed,)
    default = system or (possible[0] if len(possible) == 1 else None)
    return msgspec.structs.replace(decode_options(config), default_system=default, timezone=timezone)


def window_settings(config: Config) -> WindowSettings:
    return WindowSettings(late_max_s=config.collector.late_max_s, part_hosts=PART_HOSTS)


def telemetry_options(config: Config, source: SourceSettings | None = None) -> TelemetryOptions:
    """Return the options of telemetry decoders for a source; defaults without a source."""
    files = references(config.reference)
    nodes = files.nodes.among(config.systems_by_alias)
    return TelemetryOptions(
        decode=decode_options(config, source),
        nodes=nodes,
        hosts=nodes.components((source.system if source else None) or ""),
        sensors=files.sensors,
        taken=source.telemetry if source else Telemetry(),
        schemas=config.schema_registry.texts,
    )


def source_decoders(
    config: Config, source: SourceSettings, schemas: Schemas | None = None, missed: Missed | None = None
) -> SourceDecoders:
    """Return the decoders of a source. Each decoder is guarded, so that a malformed record cannot crash a collector.

    Without `schemas`, decoders know only the Avro schemas in the configuration. `missed` collects the hosts and sensors that
    the decoders could not map; by default, such hosts are only written to the log of the process.
    """
    make, telemetry = DECODERS.get(source.format), TELEMETRY.get(source.format)
    decode = None if make is None else guarded(make(decode_options(config, source)))
    missed = missed or HostsReported(partial(_report_host, source.topics[0]))
    options = msgspec.structs.replace(telemetry_options(config, source), missed=missed)
    slices = None if telemetry is None else partial(guarded_samples, partial(telemetry, options))
    if source.encoding != "avro":
        form = FORMATS.get(source.format)
        return SourceDecoders(source.format, decode, slices, keyed=None if form is None else form.keyed)
    # with the format auto, column names have the same meaning as in LDMS
    names = FORMATS["ldms" if source.format == "auto" else source.format].avro_names
    messages = AvroMessages(schemas or Schemas(options.schemas), str if names is None else names(options))
    return SourceDecoders(
        source.format,
        None if decode is None else opening(decode, messages.opened),
        None if slices is None else lambda: opening_slices(slices(), messages.opened),
        messages.ready,
    )


def _report_host(topic: str, host: str) -> None:
    logger("sources").warning(
        "the host of measurements is not in the file of nodes, or is an address: add an alias there, or name the "
        "label of its node in the source's telemetry.host_labels",
        topic=topic,
        host=host,
    )


def _source_of(config: Config, schemas: Schemas | None) -> Callable[[str], SourceDecoders]:
    decoders = {id(source): source_decoders(config, source, schemas) for source in config.sources}

    @cache
    def find(topic: str) -> SourceDecoders:
        _, source = next(_named(config, topic))
        return decoders[id(source)]

    return find


def _source_name(config: Config, topic: str) -> str:
    """Return the topic name or pattern in the configuration that matches `topic`."""
    return next((name for name, _ in _named(config, topic)), topic)


def silent_after(config: Config) -> Callable[[str], float]:
    """Return the function that maps a topic, or its name in the configuration, to the time in s without messages after which it is silent."""

    @lru_cache(maxsize=TOPICS_MAX)
    def find(topic: str) -> float:
        return next((source.silent_s for _, source in _named(config, topic)), SILENT_S)

    return find


def _named(config: Config, topic: str) -> Iterator[tuple[str, SourceSettings]]:
    """Yield the configured names or patterns that match `topic`, each with its source, in the order of the configuration."""
    for source in config.sources:
        yield from ((name, source) for name in source.topics if name == topic or matches(name, topic))


def matches(pattern: str, topic: str) -> bool:
    return topic_pattern([pattern]).fullmatch(topic) is not None
