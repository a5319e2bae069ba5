"""What the pieces of evidence of one job add to each other."""

from typing import Any, Final

from agent.contracts.events import Evidence
from agent.contracts.settings import EVIDENCE_FIELDS

NAMING: Final = frozenset((*EVIDENCE_FIELDS, "input", "sizes", "attributes"))
_NOTHING: tuple[None, dict[str, Any], tuple[()]] = (None, {}, ())


def given(evidence: Evidence) -> dict[str, Any]:
    """Return what evidence tells, by field.

    >>> given(Evidence(job_name="x"))
    {'job_name': 'x'}
    """
    names = evidence.__struct_fields__
    return {name: value for name in names if (value := getattr(evidence, name)) not in _NOTHING}


def beyond(own: Evidence, start: Evidence | None) -> Evidence | None:
    """Return what a start tells beyond a completion, of what can name or size a job; None where that is nothing.

    >>> found = beyond(Evidence(job_name="x"), Evidence(job_name="y", module="m"))
    >>> found.module, found.job_name
    ('m', None)
    >>> beyond(Evidence(job_name="x"), Evidence(job_name="y"))
    """
    if start is None:
        return None
    known = given(own)
    rest = {name: value for name, value in given(start).items() if name in NAMING and name not in known}
    return Evidence(**rest) if rest else None
