"""Checks of the configuration beyond single values: slow patterns, keys that contradict each other, and keys without effect."""

import difflib
import re
import string
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from ipaddress import ip_network
from itertools import islice
from typing import Any, Final

from agent.clock import cpu_s
from agent.config.roles import SchemaRegistrySettings, access_faults, schema_faults
from agent.config.tree import Config, TopicNames
from agent.config.yaml import KeyPath
from agent.identify import rule_faults
from processors.contracts.load import StructuralModel
from processors.contracts.outputs import VERDICTS
from processors.contracts.settings import EVIDENCE_FIELDS, Rule
from processors.contracts.telemetry import Telemetry
from processors.models.structure.parse import RESERVED, EquationError, parse

PARSER: Final = import_module("re._parser")  # since Python 3.11 the parser of regular expressions is not public
LENGTHS: Final = (*range(8, 40), 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
ATTACKS_MAX: Final = 96  # maximum number of texts tried per expression
CHARACTERS_MAX: Final = 24
SLOWEST_S: Final = 0.2  # CPU time limit for a text of 1,024 characters; the limit grows with the square of the length
SLACK_S: Final = 0.002
REMEMBERED: Final = 10_000
FAILING: Final = "\0"  # makes the match fail at the end of a text, so that the search tries every way to match the text
BY_CATEGORY: Final = {"DIGIT": "0", "SPACE": " ", "WORD": "a", "NOT_DIGIT": "a", "NOT_SPACE": "a", "NOT_WORD": "-"}
REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Node = tuple[Any, Any]


@lru_cache(maxsize=REMEMBERED)
def slow_text(pattern: str) -> str | None:
    """Return the first ten characters of a text on which a regular expression is slow; None if no tested text is slow.

    Each text consists of many copies of a string: one that matches the body of a repeat in the expression, or a single
    character. The texts grow until one is slow, so that an expression of exponential time costs only a few milliseconds here.
    """
    search: Callable[[str], object] = re.compile(pattern).search
    for before, repeated in islice(_attacks(PARSER.parse(pattern)), ATTACKS_MAX):
        for length in LENGTHS:
            text: str = before + (repeated * length)[:length] + FAILING
            if _is_slow(search, text):
                return text[:10]
    return None


def pattern_fault(pattern: str) -> str | None:
    """Return the problem of a regular expression and a better way to write it; None if there is no problem."""
    try:
        text = slow_text(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}."
    if text is None:
        return None
    return (
        f"{pattern!r} takes too long on texts such as {text!r}...: write it without a repeat inside a repeat and with fewer "
        "unbounded repeats that match the same characters, such as ^a+$ in place of ^(a+)+$."
    )


def _is_slow(search: Callable[[str], object], text: str) -> bool:
    allowed_s = SLACK_S + SLOWEST_S * (len(text) / LENGTHS[-1]) ** 2
    # tried twice, because a garbage collection may slow down the first try
    return all(_cpu_s(search, text) > allowed_s for _ in range(2))


def _cpu_s(search: Callable[[str], object], text: str) -> float:
    begin_s = cpu_s()
    search(text)
    return cpu_s() - begin_s


def _attacks(nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Yield pairs of texts that may expose a slow regular expression.

    For each repeat, the first text matches the part before the repeat. The second text matches the body of the repeat, or is a
    single character of the expression; the caller tests many copies of the second text.
    """
    characters = list(dict.fromkeys(_characters(nodes)))[:CHARACTERS_MAX]
    for before, body in _repeats(nodes, ""):
        for repeated in dict.fromkeys((*_texts(body), *characters)):
            if repeated:
                yield before, repeated


def _repeats(nodes: Sequence[Node], before: str) -> Iterator[tuple[str, Sequence[Node]]]:
    """Yield each repeat in a parsed regular expression, outermost first, as a text that matches the part before it, and its body."""
    for node in nodes:
        for body in _bodies(node):
            if str(node[0]) in REPEATS:
                yield before, body
            yield from _repeats(body, before)
        before += next(_texts([node]), "")


def _texts(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield texts that match the nodes of a parsed regular expression, one for each branch. Repeats use their minimum count or 1."""
    for choice in range(max((len(_bodies(node)) for node in _every(nodes)), default=0) or 1):
        yield "".join(_text(node, choice) for node in nodes)


def _text(node: Node, choice: int) -> str:
    name, bodies = str(node[0]), _bodies(node)
    if bodies and name not in {"ASSERT", "ASSERT_NOT"}:
        once = "".join(_text(part, choice) for part in bodies[min(choice, len(bodies) - 1)])
        return (once * max(1, min(node[1][0], LENGTHS[-1])))[: LENGTHS[-1]] if name in REPEATS else once
    return next(_characters([node]), "")


def _every(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for body in _bodies(node):
            yield from _every(body)


def _bodies(node: Node) -> list[Sequence[Node]]:
    """Return the bodies inside a node of a parsed regular expression: of a group, a repeat, a lookaround or a branch."""
    name, value = str(node[0]), node[1]
    if name == "BRANCH":
        return list(value[1])
    if name in REPEATS or name in {"SUBPATTERN", "ASSERT", "ASSERT_NOT"}:
        return [value[-1]]
    if name == "GROUPREF_EXISTS":
        return [body for body in value[1:] if body is not None]
    return [value] if name == "ATOMIC_GROUP" else []


def _characters(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield characters that match a part of a parsed regular expression: both ends of a range, one character of a class."""
    for node in _every(nodes):
        name, value = str(node[0]), node[1]
        if name == "LITERAL":
            yield chr(value)
        elif name == "RANGE":
            yield from map(chr, value)
        elif name == "CATEGORY":
            yield BY_CATEGORY.get(str(value).removeprefix("CATEGORY_"), "a")
        elif name == "ANY":
            yield "a"
        elif name == "NOT_LITERAL" or (name == "IN" and str(value[0][0]) == "NEGATE"):
            excluded = {chr(value)} if name == "NOT_LITERAL" else set(_characters(value[1:]))
            yield next(character for character in "a0 -_" + string.printable if character not in excluded)
        elif name == "IN":
            yield from _characters(value)


AVRO: Final = "avro"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def notes(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Yield a warning for each valid but risky value, with the path of its key."""
    if config.privacy.users == "hash" and not config.privacy.salt.get_secret_value():
        yield ("privacy", "salt"), "is empty: anyone who knows the user names can compute their hashes."
    if config.privacy.users == "plain":
        yield ("privacy", "users"), "is plain: outputs name people."
    if config.topics.replication == 1:
        yield ("topics", "replication"), "is 1: a topic that the agent creates is lost with its one broker."
    yield from _readers(config)
    if config.kafka.security.protocol == "sasl_plaintext":
        yield ("kafka", "security", "protocol"), "is sasl_plaintext: user name and data travel unencrypted."
    registry = config.schema_registry
    if (registry.url or "").startswith("http:") and (registry.username or registry.token):
        yield ("schema_registry", "url"), "is http: the log-in travels unencrypted."


def _readers(config: Config) -> Iterator[tuple[KeyPath, str]]:
    http, access = config.http, config.http.access
    if http.host not in LOOPBACK and not access.limits:
        yield (
            ("http", "host"),
            f"is {http.host}: everyone who reaches the port can read everything; set http.access to ask for a log-in.",
        )
    elif http.host not in LOOPBACK:
        yield ("http", "host"), f"is {http.host}: tokens and pages travel unencrypted; put a proxy with TLS in front."
    if not access.limits:
        return
    path = ("http", "access")
    if config.privacy.users == "drop":
        yield ("privacy", "users"), "is drop: no job has an owner, so only operators see jobs in detail."
    if not access.operators and not any(token.operator for token in access.tokens):
        hidden = "the jobs of all users, the dead letters, and the reason why a role is not ready"
        yield path, f"names no operator: nobody sees {hidden}."
    if access.metrics == "open" and config.metrics.hosts_max:
        yield (*path, "metrics"), "is open: everyone who reaches /metrics sees the measurements of hosts."
    if access.user_header is not None:
        for index, text in enumerate(access.trusted_proxies):
            network = ip_network(text, strict=False)
            place = (*path, "trusted_proxies", index)
            if network.prefixlen == 0:
                yield place, "covers all addresses: everyone who reaches the port can claim any user name."
            elif network.is_loopback:
                yield place, "is this machine: everyone who can log in to it can claim any user name."


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def model_faults(model: StructuralModel) -> Iterator[tuple[KeyPath, str]]:
    """Yield the problems of a structural model, each with the path of its key."""
    message = pattern_fault(model.application)
    if message is not None:
        yield ("application",), message
    name_faults = list(_name_faults(model))
    yield from name_faults
    if name_faults:
        return  # stop here, because errors in the equation would only be consequences of these names
    try:
        used = parse(model.equation, (*model.parameters, *model.resources)).names
    except EquationError as error:
        yield ("equation",), str(error)
        return
    for name in model.parameters:
        if name not in used:
            yield ("parameters", name), "is not in the equation."


def _name_faults(model: StructuralModel) -> Iterator[tuple[KeyPath, str]]:
    places: list[tuple[KeyPath, str]] = [(("parameters", name), name) for name in model.parameters]
    places += [(("resources", index), name) for index, name in enumerate(model.resources)]
    checked: set[str] = set()
    for path, name in places:
        if not _NAME.fullmatch(name):
            hint = "use letters, digits and underscores, and no digit first."
            yield path, f"{name!r} is not a valid name in an equation: {hint}"
        elif name in (*RESERVED, "T"):
            yield path, f"{name} has another meaning in equations; choose another name."
        elif name in checked:
            yield path, f"{name} is listed twice."
        checked.add(name)


Fault = tuple[KeyPath, str]
OWN_TOPICS: Final = (
    "journal", "predictions", "job_predictions", "answers", "alerts", "runs", "hosts", "state", "deadletters",
)  # fmt: skip


def faults(config: Config, broken: frozenset[str] = frozenset()) -> list[Fault]:
    """Return every contradiction with the path of its key. Checks that read a section listed in `broken` are skipped."""
    return [fault for sections, check in CHECKS if broken.isdisjoint(sections.split()) for fault in check(config)]


def _partitions(config: Config) -> Iterator[Fault]:
    count = config.topics.journal_partitions
    for name, system in config.systems.items():
        if system.partition >= count:
            message = (
                f"is partition {system.partition}, but topics.journal_partitions is {count}: use 0 to {count - 1}."
            )
            yield ("systems", name, "partition"), message


def _aliases(config: Config) -> Iterator[Fault]:
    systems_by_alias = {name: name for name in config.systems}
    for name, system in config.systems.items():
        for index, alias in enumerate(system.aliases):
            if systems_by_alias.setdefault(alias, name) != name or alias == name:
                message = f"{alias!r} already stands for the system {systems_by_alias[alias]}."
                yield ("systems", name, "aliases", index), message


def _other_systems(config: Config) -> Iterator[Fault]:
    if config.other_systems == "reject" and not config.systems:
        yield ("other_systems",), "rejects every event, because no systems are listed."


def _source_systems(config: Config) -> Iterator[Fault]:
    for index, source in enumerate(config.sources):
        if source.system is not None and config.journal_partition(source.system) is None:
            yield ("sources", index, "system"), f"{source.system!r} is not a system of this configuration."


def _telemetry(config: Config) -> Iterator[Fault]:
    for index, source in enumerate(config.sources):
        if source.format == "slurm" and source.telemetry != Telemetry():
            message = "has no effect with the format slurm, which contains no measurements."
            yield ("sources", index, "telemetry"), message


def _schemas(config: Config) -> Iterator[Fault]:
    settings = config.schema_registry
    for path, fault in schema_faults(settings):
        yield ("schema_registry", *path), fault
    wanting = [index for index, source in enumerate(config.sources) if source.encoding == AVRO]
    if not wanting and settings != SchemaRegistrySettings():
        yield ("schema_registry",), "has no effect: no source has the encoding avro."
    if settings.url is None and not settings.schemas:
        for index in wanting:
            yield ("sources", index, "encoding"), "is avro, which needs schema_registry.url or schema_registry.schemas."


def _source_topics(config: Config) -> Iterator[Fault]:
    owner: dict[str, int] = {}
    own = {getattr(config.topics, key): key for key in OWN_TOPICS}
    for index, source in enumerate(config.sources):
        for position, topic in enumerate(source.topics):
            path = ("sources", index, "topics", position)
            if topic in owner:
                yield path, f"{topic!r} is already read by sources[{owner[topic]}]."
            owner.setdefault(topic, index)
            if topic.startswith("^") and (message := pattern_fault(topic)) is not None:
                yield path, message
                continue
            read = [name for name in own if (re.match(topic, name) if topic.startswith("^") else topic == name)]
            if read:
                own_topic = f"the agent's own topic {read[0]} ({own[read[0]]})"
                yield path, f"reads {own_topic}: the agent would read its own output."


def _own_topics(config: Config) -> Iterator[Fault]:
    names = [getattr(config.topics, key) for key in OWN_TOPICS]
    for key, name in zip(OWN_TOPICS, names, strict=True):
        if key in TopicNames.model_fields and names.count(name) > 1:
            yield ("topics", key), f"{name!r} is the name of more than one topic."
        elif len(name) > 249:
            yield ("topics", "prefix"), f"{name!r} is longer than the 249 characters that a topic may have."


def _security(config: Config) -> Iterator[Fault]:
    security, path = config.kafka.security, ("kafka", "security")
    sasl = security.protocol.startswith("sasl")
    for key in ("mechanism", "username", "password"):
        is_set = getattr(security, key) is not None
        if sasl and not is_set:
            yield (*path, key), f"is missing; {security.protocol} needs it."
        if is_set and not sasl:
            yield (*path, key), f"has no effect with the protocol {security.protocol}; use sasl_tls or sasl_plaintext."
    if bool(security.cert_file) != bool(security.key_file):
        missing = "key_file" if security.cert_file else "cert_file"
        yield (*path, missing), "is missing; a client's certificate needs cert_file and key_file."
    for key in ("ca_file", "cert_file", "key_file"):
        if getattr(security, key) and security.protocol in ("plaintext", "sasl_plaintext"):
            yield (*path, key), f"has no effect with the protocol {security.protocol}; use tls or sasl_tls."


def rule_problems(index: int, rule: Rule) -> Iterator[Fault]:
    """Yield the problems of one rule: unknown job fields, invalid patterns, and templates that do not fit the patterns."""
    path, patterns_are_valid = ("identify", "rules", index), True
    for field, pattern in rule.match.items():
        if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
            close = difflib.get_close_matches(field, EVIDENCE_FIELDS, n=1)
            hint = (
                f"did you mean {close[0]}?" if close else f"use one of {', '.join(EVIDENCE_FIELDS)}, attributes.NAME."
            )
            yield (*path, "match", field), f"is not a job field; {hint}"
        if (message := pattern_fault(pattern)) is not None:
            patterns_are_valid = False
            yield (*path, "match", field), message
    for fault in rule_faults(rule) if patterns_are_valid else ():
        yield path, fault


def _rules(config: Config) -> Iterator[Fault]:
    for index, rule in enumerate(config.identify.rules):
        yield from rule_problems(index, rule)


def _retention(config: Config) -> Iterator[Fault]:
    """Yield a problem for each rule that never matches because it reads a job field that every source drops."""
    dropped = config.dropped_fields
    for index, rule in enumerate(config.identify.rules):
        for field in rule.match:
            if config.sources and (keep := dropped.get(field)):
                path = ("identify", "rules", index, "match", field)
                yield path, f"can never match: no source keeps it; set keep.{keep} to true in its source."


def _users(config: Config) -> Iterator[Fault]:
    """Yield a problem for each rule on user names that never matches because collectors hide user names before rules run."""
    how = {"hash": "hashed (u-...)", "drop": "dropped"}.get(config.privacy.users)
    for index, rule in enumerate(config.identify.rules):
        pattern = rule.match.get("user")
        if how and pattern is not None and not (config.privacy.users == "hash" and "u-" in pattern):
            message = f"users are {how} before rules see them; use account, or set privacy.users to plain."
            yield ("identify", "rules", index, "match", "user"), f"can never match: {message}"


def _alerts(config: Config) -> Iterator[Fault]:
    alerts = config.alerts
    peers, rack = alerts.peer_difference.resources, alerts.rack_anomaly.pattern or ""
    for path, pattern in ((("peer_difference", "resources"), peers), (("rack_anomaly", "pattern"), rack)):
        if (message := pattern_fault(pattern)) is not None:
            yield ("alerts", *path), message
    rate = alerts.failure_rate
    if rate.failures_min > rate.recent_runs:
        message = f"is {rate.failures_min}, but failures are counted among {rate.recent_runs} runs only (recent_runs)."
        yield ("alerts", "failure_rate", "failures_min"), message
    for index, verdict in enumerate(alerts.unreliable.verdicts):
        if verdict not in VERDICTS:
            message = f"{verdict!r} is not a verdict; use {', '.join(VERDICTS)}."
            yield ("alerts", "unreliable", "verdicts", index), message


def _models(config: Config) -> Iterator[Fault]:
    for index, model in enumerate(config.under_load.models):
        for path, fault in model_faults(model):
            yield ("under_load", "models", index, *path), fault


def _carbon(config: Config) -> Iterator[Fault]:
    if config.energy.carbon_g_per_kwh is not None and config.reference.carbon is not None:
        gap = "where the series has a gap, carbon is unknown"
        yield ("energy", "carbon_g_per_kwh"), f"has no effect with reference.carbon: {gap}. Remove one of them."


def _access(config: Config) -> Iterator[Fault]:
    for path, fault in access_faults(config.http.access):
        yield ("http", "access", *path), fault


# each check, with the sections that it reads
CHECKS: Final[tuple[tuple[str, Callable[[Config], Iterator[Fault]]], ...]] = (
    ("systems topics", _partitions),
    ("systems", _aliases),
    ("systems other_systems", _other_systems),
    ("systems other_systems sources", _source_systems),
    ("sources", _telemetry),
    ("sources schema_registry", _schemas),
    ("sources topics", _source_topics),
    ("topics", _own_topics),
    ("kafka", _security),
    ("identify", _rules),
    ("identify sources", _retention),
    ("identify privacy", _users),
    ("alerts", _alerts),
    ("under_load", _models),
    ("energy reference", _carbon),
    ("http", _access),
)
