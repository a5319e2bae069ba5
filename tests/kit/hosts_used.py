"""Facts about what hosts are given to do: the i-th of each kind."""

from processors.contracts.events import HostState, JobCompleted, JobStarted
from processors.power.profiles.finalisation import EVENTS_MAX, PowerSample
from tests.kit.scenario import DAY_MS, SYSTEM, completed, evidence


def run_on_hosts(i: int) -> JobStarted | JobCompleted:
    """Return the start of a job that is requeued again and again, or of every third its end."""
    start_ms = DAY_MS + i // 3 * 100_000
    if i % 3 == 1:
        return completed("1", start_ms, 60.0)
    return JobStarted(SYSTEM, "1", f"{SYSTEM}/1@{start_ms}", start_ms, evidence(hosts=(f"nid[1-{1 + i}]",)))


def drained(i: int) -> HostState:
    """Return that a host was drained, at a time of its own."""
    return HostState(SYSTEM, "nid1", "drain", DAY_MS + i)


def allocated(i: int) -> tuple[str, ...]:
    """Return the hosts of a job of a partition."""
    return f"nid{i}", "nid"


def one_run_on_hosts(i: int) -> JobStarted | JobCompleted:
    """Return the start of one run, or its end, which is corrected again and again."""
    if i % 3 == 0:
        return JobStarted(SYSTEM, "1", f"{SYSTEM}/1@{DAY_MS}", DAY_MS, evidence(hosts=("nid[1-64]",)))
    return completed("1", DAY_MS, 60.0 + i, hosts=("nid[1-64]",))


def power_sample(i: int) -> PowerSample:
    """Return what a host with a sensor did: a load of its own, and what that draws, unsteadily."""
    rates = tuple(1e9 * ((i * k) % 11) + 7.0 for k in range(1, EVENTS_MAX + 1))
    names = tuple(f"counter/PAPI_EVENT_{k}" for k in range(EVENTS_MAX))
    return PowerSample(names, rates, 200.0 + 30.0 * (i % 11) + 5.0 * (i % 3), DAY_MS + i * 60_000)
