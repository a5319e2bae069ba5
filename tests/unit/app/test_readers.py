"""From a user's name in an event to the page that only this user sees."""

from contextlib import closing

import pytest

from agent.app.compose import access
from agent.app.embedded import Embedded
from agent.clock import SystemClock
from agent.config.load import loads
from processors.contracts.events import Evidence, JobStarted, Origin
from processors.contracts.names import run_id
from processors.contracts.service import Service
from sinks.web.access import VisibilityFilter
from sinks.web.server import create_app
from tests.kit.get import get

START_MS = 1_795_168_800_000
LIMITED = """
http: {access: {user_header: Remote-User, operators: [root], trusted_proxies: [127.0.0.1]}}
privacy: {users: USERS, salt: '${env:SALT}'}
"""


@pytest.mark.parametrize(("users", "alice_sees"), [("hash", {"1"}), ("plain", {"1"}), ("drop", set())])
def test_whoever_is_named_by_the_proxy_sees_the_jobs_that_the_scheduler_reported_under_that_name(
    users: str, alice_sees: set[str]
) -> None:
    config = loads(LIMITED.replace("USERS", users), environment={"SALT": "pepper"})
    with closing(Embedded(config, SystemClock())) as agent:
        agent.tick(START_MS)
        for job_id, user in (("1", "alice"), ("2", "bob")):
            started = JobStarted(
                "exa",
                job_id,
                run_id("exa", job_id, START_MS),
                START_MS,
                Evidence(
                    application="lammps", user=user, hosts=(f"nid[{job_id}1-{job_id}4]",), account="p1", partition="gpu"
                ),
            )
            agent.write(started, Origin("jobs", 0, int(job_id)))
        agent.tick(START_MS + 60_000)
        agent.step()
        app = create_app(agent.service, agent.metrics, access=access(config))

        def jobs(user: str) -> set[str]:
            rows = get(app, "/api/v1/jobs", headers=[("Remote-User", user)]).json()["rows"]
            return {row["job_id"] for row in rows}

        assert (jobs("alice"), jobs("root"), jobs("eve")) == (alice_sees, {"1", "2"}, set())
        assert agent.service.reading("exa").hosts_of_job("1") == ("nid11", "nid12", "nid13", "nid14")
        (shown,) = (job for job in agent.service.running() if job.job_id == "1")
        assert (shown.nodes, shown.partition, shown.account) == (4, "gpu", "p1")


def test_what_is_shown_to_every_reader_alike_is_a_closed_list() -> None:
    """Whoever adds a read of a service has to say whether it has to be filtered."""
    reads = {name for name in vars(Service) if not name.startswith("_")}
    assert reads - vars(VisibilityFilter).keys() == {
        "predictions",
        "prediction",
        "answer",
        "host_counts",
        "host_names",
        "rack",
        "sources",
        "collectors",
    }
