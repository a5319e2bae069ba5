"""What goes into the journal: user names become a keyed hash, or go, and nobody's evidence grows beyond its bound."""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final

import msgspec

from agent.collector.routes import Fact, Privacy
from agent.config.roles import PrivacySettings
from agent.contracts.events import Evidence, HostMinute, HostState, JobProfile, Network

EVIDENCE_BYTES_MAX: Final = 24_000
BULKY: Final[dict[str, Any]] = {"hosts": (), "script": None, "comment": None, "attributes": {}}


def privacy(settings: PrivacySettings) -> Privacy:
    """Return the function that rewrites an event.

    >>> from agent.contracts.events import Evidence, Identity
    >>> event = Identity("exa", job_id="1", source="xalt", evidence=Evidence(user="alice"))
    >>> privacy(PrivacySettings(users="drop"))(event).evidence.user is None
    True
    """
    written = user_names(settings)

    def rewrite(event: Fact) -> Fact:
        if isinstance(event, HostState | HostMinute | Network | JobProfile):  # of hosts, and of nobody
            return event
        evidence = bounded(event.evidence)
        if evidence.user is not None and settings.users != "plain":
            evidence = msgspec.structs.replace(evidence, user=written(evidence.user))
        return event if evidence is event.evidence else msgspec.structs.replace(event, evidence=evidence)

    return rewrite


def user_names(settings: PrivacySettings) -> Callable[[str], str | None]:
    """Return the function from a user name to what the journal has in its place; None where it names nobody.

    >>> user_names(PrivacySettings(users="plain"))("alice"), user_names(PrivacySettings(users="drop"))("alice")
    ('alice', None)
    """
    salt = settings.salt.get_secret_value().encode()
    ways: dict[str, Callable[[str], str | None]] = {
        "plain": str,
        "hash": lambda user: hashed(user, salt),
        "drop": lambda _user: None,
    }
    return ways[settings.users]


def bounded(evidence: Evidence) -> Evidence:
    """Return evidence of at most EVIDENCE_BYTES_MAX, so that a job's state never outgrows a record of the broker.

    What is too much goes in the order of BULKY: host lists first, which no scheduler writes so long.

    >>> bounded(Evidence(hosts=("n" * 40_000,), job_name="run7")) == Evidence(job_name="run7")
    True
    """
    for field, nothing in BULKY.items():
        if len(msgspec.json.encode(evidence)) <= EVIDENCE_BYTES_MAX:
            break
        evidence = msgspec.structs.replace(evidence, **{field: nothing})
    return evidence


def hashed(user: str, salt: bytes) -> str:
    """Return the pseudonym of a user: the same for the same salt.

    >>> hashed("alice", b"salt") == hashed("alice", b"salt") != hashed("alice", b"pepper")
    True
    """
    return "u-" + hmac.new(salt, user.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
