"""What events say of people: user names become a keyed hash, or go, before anything is written."""

import hashlib
import hmac

import msgspec

from agent.collector.routes import Privacy
from agent.config.tree import PrivacySettings
from agent.contracts.events import JobEvent


def privacy(settings: PrivacySettings) -> Privacy:
    """Return the function that rewrites an event.

    >>> from agent.contracts.events import Evidence, Identity
    >>> event = Identity("exa", job_id="1", source="xalt", evidence=Evidence(user="alice"))
    >>> privacy(PrivacySettings(users="drop"))(event).evidence.user is None
    True
    """
    if settings.users == "plain":
        return lambda event: event
    salt = settings.salt.get_secret_value().encode()

    def rewrite(event: JobEvent) -> JobEvent:
        user = event.evidence.user
        if user is None:
            return event
        hidden = None if settings.users == "drop" else hashed(user, salt)
        return msgspec.structs.replace(event, evidence=msgspec.structs.replace(event.evidence, user=hidden))

    return rewrite


def hashed(user: str, salt: bytes) -> str:
    """Return the pseudonym of a user: the same for the same salt.

    >>> hashed("alice", b"salt") == hashed("alice", b"salt") != hashed("alice", b"pepper")
    True
    """
    return "u-" + hmac.new(salt, user.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:16]
