"""Whatever a producer sends of a job, its state stays within a broker's record and no user's name is written."""

import msgspec
import pytest

from agent.app.compose import privacy
from agent.config.roles import PrivacySettings
from processors.contracts.events import Evidence, Identity, JobCompleted
from processors.contracts.log import STATE_BYTES_MAX
from processors.jobs.lifecycle import ENDED_MAX, IDENTITIES_MAX, Job, Placement

HUGE = Evidence(
    hosts=("n" * 12_000,),
    script="\N{SNOWMAN}" * 100_000,
    user="alice",
    attributes={f"{i:02d}" * 20: "\N{SNOWMAN}" * 256 for i in range(32)},
)


@pytest.mark.parametrize("users", ["hash", "drop", "plain"])
def test_a_name_is_hashed_dropped_or_kept_as_asked(users: str) -> None:
    rewrite = privacy(PrivacySettings.model_validate({"users": users, "salt": "s"}))
    shown = rewrite(Identity("exa", job_id="1", source="xalt", evidence=Evidence(user="alice"))).evidence.user
    assert (shown == "alice") is (users == "plain")
    assert (shown is None) is (users == "drop")


def test_the_hosts_of_a_large_job_are_folded_and_stay() -> None:
    left_out: list[str] = []
    hosts = tuple(f"nid{number:06d}" for number in range(1, 2501))
    event = Identity("exa", job_id="1", source="xalt", evidence=Evidence(hosts=hosts, attributes={"atoms": 32_000}))
    written = privacy(PrivacySettings())(event, left_out.append)
    assert written.evidence == Evidence(hosts=("nid[000001-002500]",), attributes={"atoms": 32_000})
    assert left_out == []


def test_a_long_script_costs_its_end_and_no_hosts() -> None:
    left_out: list[str] = []
    evidence = Evidence(hosts=("nid[000001-002500]",), script="#SBATCH -N 2500\n" + "x" * 60_000, comment="c" * 900)
    written = privacy(PrivacySettings())(Identity("exa", job_id="1", source="xalt", evidence=evidence), left_out.append)
    assert written.evidence == msgspec.structs.replace(evidence, script=(evidence.script or "")[:4096])
    assert left_out == ["evidence_script_bytes_max"]


def test_what_is_left_out_is_named() -> None:
    left_out: list[str] = []
    hosts = tuple(f"{name:x}" for name in range(2**64, 2**64 + 3000 * 2**40 + 1, 2**40 + 12_345))
    evidence = Evidence(hosts=(*hosts, *(f"{i:08d}-{i * i * 7919}-{'n' * 20}" for i in range(3000))), comment="why")
    written = privacy(PrivacySettings())(Identity("exa", job_id="1", source="xalt", evidence=evidence), left_out.append)
    assert (written.evidence.hosts, written.evidence.comment) == ((), None)
    assert left_out == ["evidence_comment_bytes_max", "evidence_hosts_bytes_max"]


def test_a_job_with_everything_at_its_bound_fits_into_a_record() -> None:
    rewrite = privacy(PrivacySettings())
    job = Job()
    for i in range(IDENTITIES_MAX + 2):
        job.learn(rewrite(Identity("exa", job_id="1", source=str(i), evidence=HUGE)))
    for i in range(ENDED_MAX + 4):
        event = JobCompleted("exa", "1", f"exa/1@{i}", i, i + 1, 1.0, "FAILED", HUGE)
        job.end(rewrite(event), Placement(None, None, "none", 0.0), event.end_ms + 180_000)
        job.settle(0)
    assert len(msgspec.json.encode(job.snapshot())) < STATE_BYTES_MAX
