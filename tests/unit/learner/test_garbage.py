"""When a process looks for garbage: once in a while when it is idle, rarely when it never is."""

from agent.app.roles import BUSY_S, IDLE_S, Garbage


def test_a_full_collection_waits_for_an_idle_moment_but_not_for_ever() -> None:
    garbage = Garbage(0.0)
    assert not garbage.is_due(IDLE_S - 1, idle=True)
    assert garbage.is_due(IDLE_S, idle=True)
    assert not garbage.is_due(IDLE_S, idle=False)
    assert garbage.is_due(BUSY_S, idle=False)
