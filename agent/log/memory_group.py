"""Consumer groups in memory: who owns which partition, and what the group has committed."""

from collections.abc import Iterable, Mapping

from agent.contracts.log import Assignment, Position, TopicPartition


class Member:
    """One member's view of its group: the partitions it holds, and whether the group still counts on it."""

    def __init__(self, name: str, number: int) -> None:
        self.order = (name, number)
        self.held: set[TopicPartition] = set()
        self.wanted: frozenset[TopicPartition] = frozenset()
        self.expelled = False


class MemoryGroup:
    """Shares partitions out among members.

    A partition changes hands in two steps: its owner gives it up at its own next poll, only then the new owner gets
    it. So no two members ever hold one partition, except that an expelled member does not know it yet: that one can
    commit no more.

    >>> group = MemoryGroup()
    >>> first, second = group.join("a"), group.join("b")
    >>> group.share({first: [("raw", 0), ("raw", 1)], second: [("raw", 0), ("raw", 1)]})
    >>> group.settle(first).gained, group.settle(second).gained
    ((('raw', 0),), (('raw', 1),))
    """

    def __init__(self) -> None:
        self.generation = 0
        self.members: list[Member] = []
        self.committed: dict[TopicPartition, Position] = {}
        self._joined = 0
        self._holders: dict[TopicPartition, Member] = {}

    def join(self, name: str) -> Member:
        """Add a member. It owns nothing before `share` and `settle`."""
        self._joined += 1
        member = Member(name, self._joined)
        self.members.append(member)
        self.members.sort(key=lambda one: one.order)
        return member

    def remove(self, member: Member) -> None:
        """Forget a member and free what it holds."""
        member.expelled = True
        member.wanted = frozenset()
        self.members = [one for one in self.members if one is not member]
        self._holders = {partition: holder for partition, holder in self._holders.items() if holder is not member}

    def share(self, readable: Mapping[Member, Iterable[TopicPartition]]) -> None:
        """Begin a new generation: each partition to one of the members that can read it, in turn."""
        self.generation += 1
        readers: dict[TopicPartition, list[Member]] = {}
        for member in self.members:
            for partition in readable.get(member, ()):
                readers.setdefault(partition, []).append(member)
        wanted: dict[Member, set[TopicPartition]] = {member: set() for member in self.members}
        for turn, partition in enumerate(sorted(readers)):
            wanted[readers[partition][turn % len(readers[partition])]].add(partition)
        for member, partitions in wanted.items():
            member.wanted = frozenset(partitions)

    def settled(self, member: Member) -> bool:
        """Tell whether `settle` would change nothing."""
        return member.held == member.wanted or (
            member.held < member.wanted and all(partition in self._holders for partition in member.wanted - member.held)
        )

    def settle(self, member: Member) -> Assignment:
        """Give up what the member shall not have and take what is free; return both."""
        lost = sorted(member.held - member.wanted)
        for partition in lost:
            if self._holders.get(partition) is member:
                del self._holders[partition]
        gained = sorted(partition for partition in member.wanted - member.held if partition not in self._holders)
        self._holders.update(dict.fromkeys(gained, member))
        member.held = (member.held & member.wanted) | set(gained)
        return Assignment(gained=tuple(gained), lost=tuple(lost))

    def commit(self, member: Member, positions: Mapping[TopicPartition, Position]) -> None:
        """Keep the positions of partitions that the member holds, and drop the others."""
        self.committed.update({partition: at for partition, at in positions.items() if partition in member.held})
