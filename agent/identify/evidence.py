"""The bound on what is kept of a job: its evidence goes into the journal, into its state and into its settled run."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from agent.identify.identify import SEARCHED_MAX
from processors.contracts import nodes
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence

EVIDENCE_BYTES_MAX: Final = 24_000
LEFT_OUT: Final = {
    "script": "evidence_script_bytes_max",
    "comment": "evidence_comment_bytes_max",
    "hosts": "evidence_hosts_bytes_max",
    "attributes": "evidence_attributes_bytes_max",
}
"""The bound that is reached where so much of a field is left out."""

LeftOut = Callable[[str], object]
"""Is told the name of a bound that was reached."""


def uncounted(bound: str) -> None:
    """Count nothing."""
    del bound


def bounded(evidence: Evidence, left_out: LeftOut = uncounted) -> Evidence:
    """Return evidence of at most EVIDENCE_BYTES_MAX, so that a job's state never outgrows a record of the broker.

    What is too much is made shorter where that loses nothing: names of hosts are folded into ranges. Then the end of the
    script goes, which no rule looks at, the rest of it and the comment; after that hosts that do not fold, which no scheduler
    writes so, and at last the attributes.
    """
    if _fits(evidence):
        return evidence
    with suppress(InvalidInputError):  # no host list: a decoder that expands it says so
        evidence = msgspec.structs.replace(evidence, hosts=nodes.folded(evidence.hosts))
    reached: dict[str, None] = {}
    for field, shorter in _shorter(evidence):
        if _fits(evidence):
            break
        if getattr(evidence, field) != shorter:
            evidence = msgspec.structs.replace(evidence, **{field: shorter})
            reached[LEFT_OUT[field]] = None
    for bound in reached:
        left_out(bound)
    return evidence


def _shorter(evidence: Evidence) -> Iterator[tuple[str, object]]:
    yield "script", evidence.script and evidence.script[:SEARCHED_MAX]
    yield from (("script", None), ("comment", None), ("hosts", ()), ("attributes", {}))


def _fits(evidence: Evidence) -> bool:
    return len(msgspec.json.encode(evidence)) <= EVIDENCE_BYTES_MAX
