"""What it costs to change a key while an agent runs."""

from typing import Final, Literal

import msgspec

from agent.config.problems import Path

Cost = Literal["restart", "rebuild"]


class Price(msgspec.Struct, frozen=True):
    """The cost of a change and what it means for the operator."""

    cost: Cost
    meaning: str


_RESTART: Final = Price("restart", "taken over when the role starts again")
_FOLLOW: Final = Price("restart", "subscribers have to follow to the new topic; the old one keeps what it has")
PRICES: Final[dict[tuple[str, ...], Price]] = {
    ("systems", "*", "partition"): Price(
        "rebuild", "the system's events move to another shard, whose models start from nothing until a rebuild"
    ),
    ("systems", "*", "aliases"): Price("rebuild", "runs that came under the alias keep its name until a rebuild"),
    ("systems",): Price("restart", "events of the system are taken or refused from then on"),
    ("other_systems",): Price("restart", "events of other systems are taken or refused from then on"),
    ("kafka",): _RESTART,
    ("sources",): Price("restart", "messages that were already read are not read again"),
    ("reference",): Price(
        "restart", "samples have their new hosts and units from then on; what was told keeps its names"
    ),
    ("topics", "journal"): Price("rebuild", "the learner starts at the new journal with no position"),
    ("topics", "journal_partitions"): Price("rebuild", "the agent refuses to start until `scalewatch rebuild` has run"),
    ("topics", "state"): Price("rebuild", "the learner finds no state in the new topic"),
    ("topics", "runs"): Price("restart", "a rebuild reads the new topic and no longer the old one"),
    ("topics", "replication"): Price("restart", "topics that exist keep theirs; change them with Kafka's own tools"),
    ("topics", "journal_retention_s"): Price("restart", "topics that exist keep theirs; use Kafka's own tools"),
    ("topics", "answers_retention_s"): Price("restart", "topics that exist keep theirs; use Kafka's own tools"),
    ("topics", "deadletters_retention_s"): Price("restart", "topics that exist keep theirs; use Kafka's own tools"),
    ("topics",): _FOLLOW,
    ("identify",): Price(
        "rebuild", "new jobs follow it at once; runs already learned keep their names until a rebuild"
    ),
    ("jobs",): _RESTART,
    ("run_time", "unmerged_runs_max"): _RESTART,
    ("run_time",): _RESTART,
    ("hosts",): _RESTART,
    ("under_load",): _RESTART,
    ("profiles",): _RESTART,
    ("features",): Price("restart", "runs already learned keep the attributes that they were learned with"),
    ("alerts",): _RESTART,
    ("collector", "group"): Price("restart", "the new group starts at the beginning of every source"),
    ("collector",): _RESTART,
    ("learner",): _RESTART,
    ("http", "access"): Price("restart", "who was let in or kept out is so until the role starts again"),
    ("http",): _RESTART,
    ("metrics",): _RESTART,
    ("alertmanager",): _RESTART,
    ("privacy",): Price("restart", "what is already written stays as it is"),
    ("log",): _RESTART,
}


def price(path: Path) -> Price:
    """Return the price of changing a key: that of the nearest entry above it.

    >>> price(("identify", "rules", 0, "match", "job_name")).cost, price(("http", "port")).cost
    ('rebuild', 'restart')
    """
    pattern = tuple("*" if index == 1 and path[0] == "systems" else str(part) for index, part in enumerate(path))
    return next(PRICES[pattern[:length]] for length in range(len(pattern), 0, -1) if pattern[:length] in PRICES)
