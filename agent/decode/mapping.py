"""Rank files: on which host each rank of a job runs, as batch systems and MPI libraries write them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from agent.decode.fields import HOSTS_MAX, has_control
from agent.decode.message import invalid, shown
from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import expand_all

RANKS_MAX: Final = 65_536
MAPPING_MAX: Final = 1 << 20  # characters of a file
HOST_MAX: Final = 256
_RANK: Final = re.compile(r"rank\s+([0-9]{1,6})\s*=\s*([^\s]+)(?:\s+slots?\s*=.*)?", re.IGNORECASE)
_ORDER: Final = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:\s*,\s*[0-9]{1,6}(?:-[0-9]{1,6})?)*,?")
_HOST: Final = re.compile(
    r"([^\s,:]+)(?::([0-9]{1,6}))?(?:\s+(?:slots\s*=\s*)?([0-9]{1,6}))?(?:\s+max[-_]slots\s*=\s*[0-9]+)?"
)


class Ranks(NamedTuple):
    """The hosts in the order in which they are first named, and for each rank the index of its host.

    >>> Ranks(("n1", "n2"), (0, 0, 1, 1)).ranks
    (0, 0, 1, 1)
    """

    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


NO_RANKS: Final = Ranks()


def read_mapping(text: str, hosts: Sequence[str] = (), ranks_per_host: int | None = None) -> Ranks:
    r"""Return the placement of ranks from a rank file. Raise InvalidInputError (``mapping``) for other texts.

    A file lists a host for each rank, one a line or separated by commas (SLURM_HOSTFILE, PBS_NODEFILE); hosts with their number of
    slots (``n1 slots=4``, ``n1:4``, ``n1 4``); hosts of numbered ranks (``rank 0=n1 slot=0:1``, Open MPI's rank file); or the order in
    which ranks fill the `hosts` of the job, a list of host lists, with `ranks_per_host` each (MPICH_RANK_ORDER).

    >>> read_mapping("n1\nn2\nn1\n"), read_mapping("n1 slots=2\nn2 slots=1\n").ranks
    (Ranks(hosts=('n1', 'n2'), ranks=(0, 1, 0)), (0, 0, 1))
    >>> read_mapping("rank 1=n1 slot=0\nrank 0=n2 slot=0-3\n"), read_mapping("0,2,1,3", ("n[1-2]",), 2).ranks
    (Ranks(hosts=('n2', 'n1'), ranks=(0, 1)), (0, 1, 0, 1))
    """
    lines = [line for each in text.splitlines() if (line := each.partition("#")[0].strip())]
    if not lines:
        raise _wrong("The mapping is empty.")
    if _RANK.fullmatch(lines[0]):
        return _numbered(_rank_hosts(lines))
    if _ORDER.fullmatch(lines[0]):
        return _numbered(_ordered(lines, hosts, ranks_per_host))
    return _placed(_listed(lines))


def _listed(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield hosts, each with the number of consecutive ranks."""
    for line in lines:
        for part in line.split(",") if "," in line else (line,):
            match = _HOST.fullmatch(part.strip())
            if match is None:
                raise _wrong(f"The mapping has a line that names no host: {shown(line)}.")
            yield match[1], int(match[2] or match[3] or 1)


def _rank_hosts(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for line in lines:
        match = _RANK.fullmatch(line)
        if match is None:
            raise _wrong(f"The rank file has a line that names no rank: {shown(line)}.")
        yield int(match[1]), match[2]


def _ordered(lines: Sequence[str], hosts: Sequence[str], ranks_per_host: int | None) -> Iterator[tuple[int, str]]:
    """Yield ranks with their hosts, if the file lists the order in which ranks fill the hosts."""
    if not hosts or ranks_per_host is None:
        raise _wrong("An order of ranks needs the hosts of the job, and ranks_per_host.")
    try:
        names = expand_all(hosts, RANKS_MAX)
    except InvalidInputError as error:
        raise _wrong(str(error)) from None
    for place, rank in enumerate(_order(lines)):
        if place // ranks_per_host >= len(names):
            raise _wrong(f"The order has more ranks than fit on {len(names)} hosts with {ranks_per_host} each.")
        yield rank, names[place // ranks_per_host]


def _order(lines: Sequence[str]) -> Iterator[int]:
    for line in lines:
        if not _ORDER.fullmatch(line):
            raise _wrong(f"The order of ranks has a line that is no list of them: {shown(line)}.")
        for part in filter(None, (each.strip() for each in line.split(","))):
            first, _, last = part.partition("-")
            step = 1 if int(last or first) >= int(first) else -1
            yield from range(int(first), int(last or first) + step, step)


def _numbered(found: Iterable[tuple[int, str]]) -> Ranks:
    """Return the placement of numbered ranks. Raise InvalidInputError if a rank is missing or listed twice."""
    numbered = list(islice(found, RANKS_MAX + 1))  # a range in a line of a few bytes may stand for a million ranks
    if len(numbered) > RANKS_MAX:
        raise _wrong(f"The mapping has more than {RANKS_MAX} ranks.")
    by_rank = dict(numbered)
    if len(by_rank) < len(numbered) or any(rank not in by_rank for rank in range(len(by_rank))):
        raise _wrong(f"The mapping does not name each of the ranks from 0 to {len(numbered) - 1} once.")
    return _placed((by_rank[rank], 1) for rank in range(len(by_rank)))


def _placed(found: Iterable[tuple[str, int]]) -> Ranks:
    places: dict[str, int] = {}
    ranks: list[int] = []
    for host, count in found:
        if len(host) > HOST_MAX or has_control(host):
            raise _wrong(f"The mapping names a host of more than {HOST_MAX} characters, or with control characters.")
        if len(ranks) + count > RANKS_MAX:
            raise _wrong(f"The mapping has more than {RANKS_MAX} ranks.")
        ranks += [places.setdefault(host, len(places))] * count
    if sum(map(len, places)) > HOSTS_MAX:
        raise _wrong(f"The hosts of the mapping have more than {HOSTS_MAX} characters.")
    return Ranks(tuple(places), tuple(ranks))


def _wrong(detail: str) -> InvalidInputError:
    return invalid("mapping", detail)
