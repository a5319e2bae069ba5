"""How a group shares its partitions out."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.log.memory import MemoryGroup, MemoryMember
from processors.contracts.log import Position

PARTITIONS = [("raw", number) for number in range(5)]


class Groups(RuleBasedStateMachine):
    """Members come, go and settle in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.group = MemoryGroup()
        self.known: list[MemoryMember] = []

    def share(self) -> None:
        self.group.share(dict.fromkeys(self.group.members, PARTITIONS))

    @rule(name=st.sampled_from("abc"))
    def join(self, name: str) -> None:
        self.known.append(self.group.join(name))
        self.share()

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.group.remove(data.draw(st.sampled_from(self.group.members)))
        self.share()

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.group.members))
        before = set(member.assigned)
        change = self.group.settle(member)
        assert member.assigned == (before - set(change.lost)) | set(change.gained)
        assert self.group.settled(member)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        retained = [partition for member in self.group.members for partition in member.assigned]
        assert len(retained) == len(set(retained))

    @invariant()
    def once_everybody_has_settled_twice_all_partitions_are_owned_evenly(self) -> None:
        if not self.group.members:
            return
        for _ in range(2):  # first all give up, then all take
            for member in self.group.members:
                self.group.settle(member)
        shares = [len(member.assigned) for member in self.group.members]
        assert sum(shares) == len(PARTITIONS)
        assert max(shares) - min(shares) <= 1


TestGroups = Groups.TestCase


def test_a_position_is_committed_only_by_the_owner() -> None:
    group = MemoryGroup()
    member = group.join("a")
    group.share({member: PARTITIONS[:1]})
    group.settle(member)
    group.commit(member, {partition: Position(offset=7) for partition in PARTITIONS})
    assert group.committed == {PARTITIONS[0]: Position(offset=7)}
