"""The hash of what the learner's state depends on. Checkpoints carry it."""

import hashlib
from typing import Final

import msgspec

from agent.config.tree import Config

SECTIONS: Final = ("systems", "identify", "jobs", "run_time", "alerts")
TOPICS: Final = ("journal", "journal_partitions")


def config_hash(config: Config) -> str:
    """Return 16 hexadecimal digits that are equal where the learner's state means the same.

    Secrets, hosts, ports, names of other topics and whatever only concerns the roles' pace are no part of it.

    >>> from agent.config.roles import HttpSettings
    >>> config_hash(Config()) == config_hash(Config(http=HttpSettings(port=9100)))
    True
    """
    plain = config.model_dump(mode="json", include={**dict.fromkeys(SECTIONS, True), "topics": set(TOPICS)})
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]
