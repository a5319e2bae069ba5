"""What the rules make of many jobs: counts by application, and by name where nothing names them."""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from agent.contracts.events import Evidence, Identity, JobCompleted, JobEvent, JobStarted
from agent.contracts.names import job_key
from agent.identify import Identification, Identifier
from agent.identify.program_names import cleaned

GROUPS_MAX: Final = 100_000
NAMES_MAX: Final = 10_000
SIZES_MAX: Final = 1_000
NAME_MAX: Final = 80
IDENTITIES_MAX: Final = 100_000


class Group(msgspec.Struct):
    """The jobs of one application that were identified in one way; `sizes` counts jobs by size."""

    application: str
    input: str
    system: str
    unit: str
    source: str
    confidence: float
    jobs: int = 0
    sizes: dict[float, int] = {}


class Survey:
    """Counts jobs, each by what it was identified as. Memory is bounded; what is left out is counted.

    `hide` takes out of an event what the agent would not show to its rules.

    >>> from agent.contracts.events import Evidence
    >>> from agent.contracts.settings import IdentifySettings
    >>> survey = Survey(Identifier(IdentifySettings()))
    >>> job = JobCompleted("exa", "1", "exa/1@0", 0, 1, 1.0, "COMPLETED", Evidence(job_name="gmx_07", sizes={"nodes": 4}))
    >>> survey.take(job)
    >>> [(group.application, group.sizes) for group in survey.groups()]
    [('gmx_#', {4: 1})]
    """

    def __init__(self, identifier: Identifier, hide: Callable[[JobEvent], JobEvent] = lambda event: event) -> None:
        self._identifier = identifier
        self._hide = hide
        self._groups: dict[tuple[object, ...], Group] = {}
        self._nameless: Counter[tuple[str, str]] = Counter()
        self._identities: dict[str, dict[str, Identity]] = {}
        self.jobs = 0
        self.identified = 0
        self.started = 0
        self.left_out = 0

    def take(self, event: JobEvent) -> None:
        """Count a job that ended, or remember what another source says of one."""
        event = self._hide(event)
        if isinstance(event, JobCompleted):
            also = self._identities.pop(job_key(event.system, event.job_id), {})
            self._count(event, self._identifier.identify(event.evidence, event.system, tuple(also.values())))
        elif isinstance(event, Identity):
            while len(self._identities) >= IDENTITIES_MAX:
                self._identities.pop(next(iter(self._identities)))
            self._identities.setdefault(job_key(event.system, event.job_id), {})[event.source] = event
        elif isinstance(event, JobStarted):
            self.started += 1

    def groups(self) -> list[Group]:
        """Return the applications, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (-group.jobs, group.application, group.input))

    def nameless(self) -> list[tuple[tuple[str, str], int]]:
        """Return job name and reason of jobs that nothing names, with their number, the most frequent first."""
        return self._nameless.most_common()

    def _count(self, event: JobCompleted, found: Identification) -> None:
        self.jobs += 1
        if found.application is None:
            self._count_nameless(_named(event.evidence), found.reason or "")
            return
        self.identified += 1
        key = (found.application, found.input, found.system, found.unit, found.source)
        if key not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                self.left_out += 1
                return
            self._groups[key] = Group(*key, confidence=found.confidence)
        group = self._groups[key]
        group.jobs += 1
        if found.n is not None and (found.n in group.sizes or len(group.sizes) < SIZES_MAX):
            group.sizes[found.n] = group.sizes.get(found.n, 0) + 1

    def _count_nameless(self, name: str, reason: str) -> None:
        key = (name, reason)
        if key in self._nameless or len(self._nameless) < NAMES_MAX:
            self._nameless[key] += 1
        else:
            self.left_out += 1


def _named(evidence: Evidence) -> str:
    """Return what a rule for the job could go by."""
    text = evidence.job_name or evidence.executable
    if text:
        return cleaned(text)[:NAME_MAX]
    parts = [f"{field} {value}" for field in ("user", "account", "partition") if (value := getattr(evidence, field))]
    return cleaned(", ".join(parts))[:NAME_MAX]
