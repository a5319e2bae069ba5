"""Nodes, host lists and racks. This module parses host lists, and finds nodes by the names that producers use."""

import copy
import re
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from math import prod
from typing import Final, NamedTuple, cast

import msgspec

from processors.contracts.errors import InvalidInputError

HOSTS_COUNT_MAX: Final = 10_000_000
NAME_MAX: Final = 256  # most characters of a host name outside its ranges
RANGES_MAX: Final = 16  # most ranges in a host name
UNREADABLE: Final = "The host list has unbalanced brackets, empty names or blanks."
NO_HOSTS: Final = ("", "None assigned", "None", "(null)", "Unknown")

_NAME = re.compile(r"(?:[^,\[\]\s]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_DIGITS = re.compile(r"([0-9]{1,18})")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")

_Range = tuple[int, int, int]  # first, last, digits
_Part = str | list[_Range]


def count(text: str) -> int:
    """Return the number of hosts in a list such as ``nid[001042-001045,7],login1``. A host that is listed twice counts twice.

    Raise InvalidInputError (reason ``hosts``) if the text is not a host list, or if it exceeds HOSTS_COUNT_MAX hosts, NAME_MAX
    characters in a name, or RANGES_MAX ranges in a name.

    >>> count("nid[001042-001045,7]"), count("rack[0-1]node[00-15]"), count("None assigned")
    (5, 32, 0)
    """
    total = 0
    for parts in _names(text):
        total += prod(map(_size, parts))
        if total > HOSTS_COUNT_MAX:
            raise _invalid(f"The host list names more than {HOSTS_COUNT_MAX} hosts.")
    return total


def expand(text: str, limit: int) -> tuple[str, ...]:
    """Return the host names of a list. Raise InvalidInputError as `count` does, and for more than `limit` names.

    >>> expand("nid[001042-001044,7],login1", limit=10)
    ('nid001042', 'nid001043', 'nid001044', 'nid7', 'login1')
    >>> expand("rack[1-2]node[01-02]", limit=10)
    ('rack1node01', 'rack1node02', 'rack2node01', 'rack2node02')
    """
    if text.isalnum() and limit > 0 and text not in NO_HOSTS:
        return (text,)  # shortcut: most runs have one host and no brackets
    return tuple(expand_all((text,), limit))


def expand_all(texts: Sequence[str], limit: int) -> list[str]:
    """Return the host names of several lists. Raise InvalidInputError as `expand` does; `limit` applies to all lists together.

    >>> expand_all(["nid[1-2]", "login1"], limit=3)
    ['nid1', 'nid2', 'login1']
    """
    if sum(map(count, texts)) > limit:
        raise _invalid(f"More than {limit} hosts are named.")
    every = (parts for text in texts for parts in _names(text))
    return ["".join(chosen) for parts in every for chosen in product(*map(_texts, parts))]


def spread(texts: Sequence[str], limit: int) -> tuple[int, tuple[str, ...]]:
    """Return the number of hosts in the lists, and at most `limit` of their names, evenly spaced in list order.

    Raise InvalidInputError as `count` does. Only the returned names are generated, to save time.

    >>> spread(["nid[0001-4000]", "login1"], limit=4)
    (4001, ('nid0001', 'nid1001', 'nid2001', 'nid3001'))
    """
    names = [name for text in texts for name in _parsed(text)]
    ends = list(accumulate(1 if isinstance(name, str) else prod(map(_size, name)) for name in names))
    total = ends[-1] if ends else 0
    sample = []
    for index in (i * total // min(limit, total) for i in range(min(limit, total))):
        which = bisect_right(ends, index)
        name = names[which]
        sample.append(name if isinstance(name, str) else _at(name, index - (ends[which - 1] if which else 0)))
    return total, tuple(sample)


def names_host(texts: Sequence[str], host: str) -> bool:
    """Return whether the host lists `texts` contain `host`, without expanding the lists; an invalid list contains no host.

    >>> names_host(["nid[001042-001045,7],login1"], "nid001044"), names_host(["nid[001042-001045]"], "nid1044")
    (True, False)
    """
    try:
        names = (name for text in texts for name in _parsed(text))
        return any(name == host if isinstance(name, str) else _is_one_of(name, host) for name in names)
    except InvalidInputError:
        return False


def _is_one_of(parts: list[_Part], host: str) -> bool:
    at = 0
    for part in parts:
        if isinstance(part, str):
            if not host.startswith(part, at):
                return False
            at += len(part)
            continue
        number = _DIGITS.match(host, at)
        if number is None or not any(
            first <= int(number[1]) <= last and f"{int(number[1]):0{digits}d}" == number[1]
            for first, last, digits in part
        ):
            return False
        at = number.end()
    return at == len(host)


def folded(texts: Sequence[str]) -> tuple[str, ...]:
    """Return shorter host lists of the same hosts without duplicates. Names that differ only in numbers become ranges.

    Names with brackets stay unchanged. Raise InvalidInputError as `count` does.

    >>> folded(["nid000001", "nid000002", "nid000003", "login1", "nid[7-9]"])
    ('nid[000001-000003],login1,nid[7-9]',)
    >>> folded(["x1000c0s0b0n0,x1000c0s0b0n1,x1000c0s0b1n0,x1000c0s0b1n1,x1001c0s0b0n0"])
    ('x1000c0s0b[0-1]n[0-1],x1001c0s0b0n0',)
    """
    # texts around the numbers of a name -> numbers of each name
    alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for text in texts:
        for name in _whole(text):
            parts = _DIGITS.split(name) if "[" not in name else [name]
            parts = parts if len(parts) <= 2 * RANGES_MAX + 1 else [name]
            alike.setdefault(tuple(parts[::2]), []).append(tuple(parts[1::2]))
    lists = [text for around, numbers in alike.items() for text in _folded_alike(around, numbers)]
    return (",".join(lists),) if lists else ()


def _whole(text: str) -> Iterable[str]:
    """Return the names of a list as written, with unexpanded ranges."""
    if "[" not in text and "]" not in text:
        return [name for name in _parsed(text) if isinstance(name, str)]
    for parts in _names(text):
        for part in parts:
            _size(part)  # raises on an invalid range
    return _NAME.findall(text)


def _folded_alike(around: tuple[str, ...], numbers: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield host lists for names that differ only in their numbers; `around` are the texts before, between and after the numbers.

    The last number is folded first: names that agree in all other numbers become one name with a range. Numbers with leading
    zeros are folded only with numbers of the same length.
    """
    padded = [
        {len(text) for text in column if text[0] == "0" and len(text) > 1} for column in zip(*numbers, strict=True)
    ]
    by_widths: dict[tuple[int, ...], dict[tuple[Hashable, ...], None]] = {}
    for texts in numbers:
        widths = tuple(len(text) if len(text) in lengths else 1 for text, lengths in zip(texts, padded, strict=True))
        by_widths.setdefault(widths, {})[tuple(map(int, texts))] = None
    for widths, names in by_widths.items():
        places: Iterable[tuple[Hashable, ...]] = names
        for at in reversed(range(len(widths))):
            places = _folded_at(places, at, widths[at])
        for place in places:
            yield "".join(part for pair in zip(around, (*map(str, place), ""), strict=True) for part in pair)


def _folded_at(places: Iterable[tuple[Hashable, ...]], at: int, width: int) -> list[tuple[Hashable, ...]]:
    """Merge names that differ only in number `at` into one name with ranges; each name is the tuple of its numbers."""
    alike: dict[tuple[Hashable, ...], list[int]] = {}
    for place in places:
        alike.setdefault((*place[:at], None, *place[at + 1 :]), []).append(cast("int", place[at]))
    return [(*place[:at], _ranges_text(sorted(found), width), *place[at + 1 :]) for place, found in alike.items()]


def consecutive(numbers: Iterable[int]) -> list[list[int]]:
    """Return the first and the last number of each run of consecutive numbers; `numbers` must ascend.

    >>> consecutive([1, 2, 3, 7])
    [[1, 3], [7, 7]]
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _ranges_text(numbers: list[int], width: int) -> str:
    pairs = consecutive(numbers)
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in pairs]
    return texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]"


def _parsed(text: str) -> Iterable[str | list[_Part]]:
    """Return the names of a list, parsed into parts. Names of a list without brackets stay plain text, because the list may be long."""
    if "[" in text or "]" in text or text.strip() in NO_HOSTS:
        return _names(text)
    names = text.split(",")
    if not all(names) or len(text.split()) != 1 or text != text.strip():
        raise _invalid(UNREADABLE)
    return names


def _at(parts: list[_Part], index: int) -> str:
    chosen = []
    for part in reversed(parts):
        index, own = divmod(index, _size(part))
        chosen.append(part if isinstance(part, str) else _number(part, own))
    return "".join(reversed(chosen))


def _number(ranges: list[_Range], index: int) -> str:
    for first, last, digits in ranges:
        if index <= last - first:
            return f"{first + index:0{digits}d}"
        index -= last - first + 1
    raise IndexError(index)


def _names(text: str) -> Iterator[list[_Part]]:
    if text.strip() in NO_HOSTS:
        return
    names = _NAME.findall(text)
    if ",".join(names) != text:
        raise _invalid(UNREADABLE)
    for name in names:
        parts = _PART.findall(name)
        plain_characters = sum(len(plain) for _, plain in parts)
        if len(parts) > 1 and (plain_characters > NAME_MAX or sum(not plain for _, plain in parts) > RANGES_MAX):
            raise _invalid(
                f"A host name with ranges has more than {NAME_MAX} characters or more than {RANGES_MAX} ranges."
            )
        yield [plain or _ranges(inside) for inside, plain in parts]


def _ranges(inside: str) -> list[_Range]:
    ranges = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise _invalid("The host list has brackets that hold no range.")
        ranges.append((first, last, len(match[1])))
    return ranges


def _size(part: _Part) -> int:
    return 1 if isinstance(part, str) else sum(last - first + 1 for first, last, _ in part)


def _texts(part: _Part) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [f"{number:0{digits}d}" for first, last, digits in part for number in range(first, last + 1)]


def _invalid(detail: str) -> InvalidInputError:
    return InvalidInputError("hosts", detail)


_CONTROLLER: Final = re.compile(r"(x[0-9]+c[0-9]+s[0-9]+b[0-9]+)n[0-9]+")
_NID: Final = re.compile(r"nid0*([0-9]{1,12})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_Key = tuple[str, str | int]


class Node(msgspec.Struct, frozen=True):
    """A node. `host` is its name in the host lists of jobs; producers of telemetry use the other names.

    `system` is empty if the names of the node are unique among all systems. `component_id` is the number of the node in LDMS; it
    defaults to `nid` unless another node has that number. `power_max_w` is the maximum power of the node.

    >>> Node("nid001042", xname="x9000c3s0b0n0", aliases=("c9-0c3s0n0",)).names
    ('nid001042', 'x9000c3s0b0n0', 'c9-0c3s0n0')
    """

    host: str
    system: str = ""
    xname: str = ""
    nid: int | None = None
    component_id: int | None = None
    aliases: tuple[str, ...] = ()
    partition: str = ""
    cores: int | None = None
    sockets: int | None = None
    power_max_w: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.host, self.xname, *self.aliases) if name)


class Nodes:
    """Finds nodes by any name that producers use. Looking a name up is slow: do so once for each series, not for each sample.

    The comparison ignores case. An unlisted name is also tried without its domain, and as ``nid`` with its number, with any
    padding. A listed name with a domain is also found without the domain, unless the short name is ambiguous.

    >>> nodes = Nodes([Node("nid001042", xname="x9000c3s0b0n0", nid=1042, aliases=("c9-0c3s0n0",))])
    >>> [nodes.host(name) for name in ("NID001042.hpc.example", "nid1042", "x9000c3s0b0n0", "c9-0c3s0n0", "1042", "nid7")]
    ['nid001042', 'nid001042', 'nid001042', 'nid001042', 'nid001042', None]
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes = tuple(nodes)
        self._systems: Mapping[str, str] = {}
        self._names: dict[_Key, Node] = {}  # by name, and by the number behind ``nid``
        self._components: dict[_Key, Node] = {}
        self._controllers: dict[_Key, Node | None] = {}  # None: a controller of several nodes
        for node in self._nodes:
            self._add(node)
        for number, of in [(node.component_id, node) for node in self._nodes] + [
            (node.nid, node) for node in self._nodes
        ]:
            if number is not None and (of.component_id is None or of.component_id == number):
                self._components.setdefault((of.system, number), of)
        self._add_short_names()

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def node(self, name: str, system: str = "") -> Node | None:
        """Return the node of a system by any of its names; None if the name is not listed."""
        name = name.lower()
        listed = self._of(self._names, name, system) or self._of(self._names, name.partition(".")[0], system)
        if listed is not None:
            return listed
        nid = _NID.fullmatch(name.partition(".")[0])
        if nid is not None:
            return self._of(self._names, int(nid[1]), system)
        return self.component(int(name), system) if _NUMBER.fullmatch(name) else None

    def host(self, name: str, system: str = "") -> str | None:
        """Return the host-list name of the node that a producer calls `name`; None if the name is not listed."""
        node = self.node(name, system)
        return None if node is None else node.host

    def component(self, number: int, system: str = "") -> Node | None:
        return self._of(self._components, number, system)

    def among(self, systems: Mapping[str, str]) -> "Nodes":
        """Return the same nodes, which can also be looked up by an alias of their system; `systems` maps each alias to the system.

        >>> Nodes([Node("n1", system="exa")]).among({"exa-login": "exa"}).host("n1", "exa-login")
        'n1'
        """
        renamed = copy.copy(self)
        renamed._systems = systems  # noqa: SLF001 - a copy that this method made
        return renamed

    def components(self, system: str = "") -> dict[int, str]:
        """Return the host names of a system by component id."""
        system = self._systems.get(system, system)
        hosts = {int(number): node.host for (of, number), node in self._components.items() if not of}
        return hosts | {int(number): node.host for (of, number), node in self._components.items() if of == system}

    def controlled(self, xname: str, system: str = "") -> Node | None:
        """Return the node at an xname, or the only node behind a controller (``x3000c0s17b0``); None for a shared controller.

        >>> nodes = Nodes([Node("n1", xname="x3000c0s17b0n0"), Node("n2", xname="x9c3s0b0n0"), Node("n3", xname="x9c3s0b0n1")])
        >>> [node and node.host for node in map(nodes.controlled, ("x3000c0s17b0", "x9c3s0b0n1", "x9c3s0b0", "x9c3"))]
        ['n1', 'n3', None, None]
        """
        name = xname.lower()
        return self._of(self._names, name, system) or self._of(self._controllers, name, system)

    def shared(self, xname: str, system: str = "") -> bool:
        """Return whether an xname is a controller of several listed nodes.

        >>> Nodes([Node("n2", xname="x9c3s0b0n0"), Node("n3", xname="x9c3s0b0n1")]).shared("x9c3s0b0")
        True
        """
        system = self._systems.get(system, system)
        return any((of, xname.lower()) in self._controllers for of in (system, "")) and not self.controlled(
            xname, system
        )

    def _of(self, table: "dict[_Key, Node] | dict[_Key, Node | None]", name: str | int, system: str) -> Node | None:
        system = self._systems.get(system, system)
        return (table.get((system, name)) if system else None) or table.get(("", name))

    def _add(self, node: Node) -> None:
        for name in node.names:
            self._names.setdefault((node.system, name.lower()), node)
        if node.nid is not None:
            self._names.setdefault((node.system, node.nid), node)
        controller = _CONTROLLER.fullmatch(node.xname.lower())
        if controller is not None:
            key = (node.system, controller[1])
            self._controllers[key] = None if key in self._controllers else node

    def _add_short_names(self) -> None:
        """Add each name without its domain, unless two nodes would share the short name."""
        short: dict[_Key, Node | None] = {}
        for (system, listed), node in self._names.items():
            first = str(listed).partition(".")[0]
            if first == str(listed) or first.isdigit():
                continue
            key = (system, first)
            short[key] = node if short.get(key, node) is node else None
        for name, found in short.items():
            if found is not None:
                self._names.setdefault(name, found)


NO_NODES: Final = Nodes()


PLACED_HOSTS_MAX: Final = 200_000  # most hosts in one placement list


class HostPlace(msgspec.Struct, frozen=True):
    """An entry of the placement list: hosts as a host list, and their position in the network.

    The hosts have `coordinates` in a torus, or `switches` above them, from the top down. `system` is empty if the position is the
    same in all systems.
    """

    hosts: str
    coordinates: tuple[int, ...] = ()
    switches: tuple[str, ...] = ()
    system: str = ""


class Intensity(NamedTuple):
    """The carbon intensity of the power supply from `time_ms` on, in g CO2e per kWh.

    >>> Intensity(1_795_132_800_000, 310.0).g_per_kwh
    310.0
    """

    time_ms: int
    g_per_kwh: float


RACK_HOSTS_MAX: Final = 200_000  # most hosts in all racks together


class RackHosts(msgspec.Struct, frozen=True):
    """An entry of the rack list: a rack, and hosts in it as a host list. `system` is empty if the entry is valid for all systems."""

    rack: str
    hosts: str
    system: str = ""


class HostRack(NamedTuple):
    """The rack of a host. `listed` is False if the rack is guessed from the name of the host."""

    name: str
    listed: bool

    @property
    def known_by(self) -> str:
        """Words to add to "the same rack" if the rack was guessed from the host name; empty if the rack is listed.

        >>> HostRack("r3", listed=True).known_by, HostRack("r3", listed=False).known_by
        ('', ' by its name')
        """
        return "" if self.listed else " by its name"


class Racks:
    r"""The racks of all hosts. The rack of an unlisted host is guessed: the first group of `pattern` in the host name.

    >>> racks = Racks([RackHosts("r3", "nid[001-004]", "exa")], pattern=r"^(x\d+)c\d+")
    >>> racks.of("exa", "nid002"), racks.of("exa", "x1000c0s1b0n0"), racks.of("mega", "nid002")
    (HostRack(name='r3', listed=True), HostRack(name='x1000', listed=False), None)
    """

    def __init__(self, listed: Iterable[RackHosts] = (), pattern: str | None = None) -> None:
        self._listed = {
            (row.system, host): HostRack(row.rack, listed=True)
            for row in listed
            for host in expand(row.hosts, RACK_HOSTS_MAX)
        }
        self._pattern = None if pattern is None else re.compile(pattern)

    def of(self, system: str, host: str) -> HostRack | None:
        """Return the rack of a host; None if the host is not listed and its name contains no rack."""
        listed = self._listed.get((system, host)) or self._listed.get(("", host))
        if listed is not None or self._pattern is None:
            return listed
        match = self._pattern.search(host)
        return HostRack(match[1], listed=False) if match is not None and match[1] else None


NO_RACKS: Final = Racks()
