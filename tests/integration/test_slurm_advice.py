"""A real Slurm that tells its users what was predicted: it advises, and never keeps a job from running."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.cli.predict import learned
from agent.config.roles import PrivacySettings
from agent.config.tree import Config
from agent.identify import normalised_job_name
from processors.contracts.outputs import Range, UsefulSizes
from processors.contracts.settings import IdentifySettings, Rule
from sinks.table import rows, write_lines
from sinks.web.server import Server, create_app
from tests.kit.messages import curve_point, prediction
from tests.kit.slurm import SlurmCluster
from tests.kit.slurm_root import SUITES, why_not

pytestmark = [pytest.mark.slurm]
PLUGINS = Path(__file__).resolve().parents[2] / "deploy" / "slurm"
TABLE = "var/lib/scalewatch/predictions.jsonl"


@pytest.fixture(scope="module", params=SUITES)
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A Slurm with the plugin and a table: lammps takes 1,000 s on one node, 250 s on two and on three, and 200 s on four."""
    if reason := why_not():
        if os.environ.get("SCALEWATCH_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    output = prediction(
        input="",
        curve=(curve_point(1, 1000.0), curve_point(2, 252.0), curve_point(3, 250.0), curve_point(4, 200.0)),
        reliable_n=Range(1, 4),
        useful_n=UsefulSizes(2.0),  # at half efficiency: a size beyond may be faster all the same
    )
    table = tmp_path_factory.mktemp("table") / "predictions.jsonl"
    write_lines(table, rows("archer2/lammps//nodes", output))
    plugins = {f"etc/slurm/{path.name}": path.read_text() for path in sorted(PLUGINS.glob("*.lua"))}
    with SlurmCluster(
        request.param,
        "127.0.0.1:1",  # nobody listens: jobs run whether their records arrive or not
        more_settings="CliFilterPlugins=cli_filter/lua\n",
        files={**plugins, TABLE: table.read_text()},
    ) as cluster:
        yield cluster


def submit(slurm: SlurmCluster, *options: str) -> str:
    """Submit a job and return all that sbatch printed."""
    where = "--chdir=/var/lib/slurm --output=/dev/null"
    printed = slurm.run("sh", "-c", f"timeout 60 sbatch {where} {' '.join(options)} --wrap true 2>&1")
    assert re.search(r"Submitted batch job \d+", printed), printed
    return printed


def test_a_time_limit_far_above_what_is_needed_is_reported(slurm: SlurmCluster) -> None:
    assert "lammps on 1 node nearly always ends within" in submit(
        slurm, "--job-name=lammps", "--nodes=1", "--time=60:00"
    )


def test_a_time_limit_below_the_prediction_is_reported(slurm: SlurmCluster) -> None:
    output = submit(slurm, "--job-name=LAMMPS_17", "--nodes=1", "--time=10:00")
    assert "lammps on 1 node will probably take 17 min; the time limit of 10 min would cut it off." in output


def test_more_nodes_than_are_of_use_are_reported(slurm: SlurmCluster) -> None:
    output = submit(slurm, "--job-name=x", "--comment=application=lammps", "--nodes=3", "--time=5:00")
    assert "lammps gains nothing beyond 2 nodes; 3 are asked for." in output


def test_nodes_beyond_half_efficiency_that_are_faster_are_no_waste(slurm: SlurmCluster) -> None:
    output = submit(slurm, "--job-name=lammps", "--nodes=4", "--time=5:00")
    assert "gains nothing" not in output


@pytest.mark.parametrize("options", [("--job-name=other", "--time=60:00"), ("--job-name=lammps", "--time=20:00")])
def test_nothing_is_reported_of_an_unknown_job_or_a_fair_limit(slurm: SlurmCluster, options: tuple[str, ...]) -> None:
    output = submit(slurm, *options, "--nodes=1")
    assert "lammps" not in output


@pytest.mark.parametrize(
    "table",
    [
        "mkfifo {table}",  # nobody writes to it
        "cp {table}.good {table}; truncate -s 70M {table}",  # longer than is read
        "cp {table}.good {table}; chmod 000 {table}; rm {table}; ln -s /dev/zero {table}",  # without end, and one line
        "true",  # there is none
    ],
    ids=["pipe", "huge", "endless", "missing"],
)
def test_no_table_holds_up_a_job(slurm: SlurmCluster, table: str) -> None:
    path = f"/{TABLE}"
    slurm.run("sh", "-c", f"mv {path} {path}.good; {table.format(table=path)}")
    try:
        output = submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")
        assert "lammps" not in output
    finally:
        slurm.run("sh", "-c", f"mv -f {path}.good {path}")
    assert "nearly always ends within" in submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")


HOLD = """
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks for a lease back by it
file = open(sys.argv[2], "r+b")
{"flock": lambda: fcntl.flock(file, fcntl.LOCK_EX), "fcntl": lambda: fcntl.lockf(file, fcntl.LOCK_EX),
 "lease": lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)}[sys.argv[1]]()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, lock: str) -> Iterator[None]:
    """Let another process hold an exclusive lock of a file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, lock, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        assert holder.poll() is None, "it held the lock all the time"
        holder.communicate(b"")


@pytest.mark.parametrize("lock", ["flock", "fcntl"])
def test_a_locked_table_is_read_all_the_same(slurm: SlurmCluster, lock: str) -> None:
    with held(slurm.path(TABLE), lock):
        output = submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")
    assert "lammps on 1 node nearly always ends within" in output


def test_a_table_that_cannot_be_opened_while_another_holds_a_lease_of_it_holds_up_no_job(slurm: SlurmCluster) -> None:
    broken_s = int(Path("/proc/sys/fs/lease-break-time").read_text())  # after so long the kernel takes it away
    began_s = time.monotonic()
    with held(slurm.path(TABLE), "lease"):
        output = submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")
    assert time.monotonic() - began_s < broken_s / 2
    assert "lammps" not in output
    assert "nearly always ends within" in submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")


def test_a_table_of_many_applications_gives_the_advice_of_the_right_one(slurm: SlurmCluster) -> None:
    path = f"/{TABLE}"
    others = 'for i in $(seq 20000); do echo \'{"application":"other\'$i\'","unit":"nodes","n":1.0}\'; done'
    slurm.run(
        "sh", "-c", f"cp {path} {path}.good; ({others}; cat {path}.good; {others}) > {path}.new; mv {path}.new {path}"
    )
    try:
        assert "lammps on 1 node nearly" in submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")
    finally:
        slurm.run("sh", "-c", f"mv -f {path}.good {path}")


NAMES = (
    "LAMMPS_17", "run7", "md_042", "job-2026-01-03", "md_2026-01-03_12", "lmp_n64", "cp2k", "h5bench", "3dfft", "32k", "ab 12 13",
    "64nodes", "x_16x8_y", "grid16x8", "a1x2", "abcx2x3", "x16x8y4", "1234567abc", "deadbeef01", "deadbeef", "sweep[1-10%2]",
    "/home/u/run.sh", "go.v2.slurm", "md.1.2-3", "a--1--2", "#4", "M\u00fcnchen7", "4x", "8p", "12345", "a#1",
)  # fmt: skip


def test_the_table_is_searched_by_the_names_that_the_agent_gives(slurm: SlurmCluster) -> None:
    slurm.path("etc/slurm/names").write_text("".join(f"{name}\n" for name in NAMES))
    plugin = slurm.path("etc/slurm/cli_filter.lua")
    before = plugin.read_text()
    loop = 'for name in io.lines("/etc/slurm/names") do io.stderr:write("counted: ", scalewatch.counted(name), "\\n") end\n'
    head = "function slurm_cli_pre_submit(options, component)\n"
    plugin.write_text(before.replace(head, head + loop))
    try:
        output = submit(slurm, "--job-name=lammps", "--nodes=1")
    finally:
        plugin.write_text(before)
    assert re.findall("counted: (.*)", output) == [normalised_job_name(name).lower() for name in NAMES]


RULES = (
    Rule(
        match={"job_name": "^md-(?P<input>rhodo|chain)", "partition": "^standard$"},
        application="lammps",
        input="{input}",
    ),
    Rule(match={"script": "(?m)^module load gromacs"}, application="gromacs"),
    Rule(match={"executable": "/vasp_std$"}, application="vasp"),
    Rule(match={"user": "^root$", "job_name": "^nightly"}, application="nightly of root"),
)
HISTORY = {  # hours on a node, and what a producer reports of the jobs
    "rhodo": (1.0, {"job_name": "md-rhodo-1", "partition": "standard"}),
    "chain": (1 / 60, {"job_name": "md-chain-1", "partition": "standard"}),
    "script": (1.0, {"job_name": "any", "script": "#!/bin/sh\nmodule load gromacs\n"}),
    "executable": (1.0, {"job_name": "any", "executable": "/opt/vasp/bin/vasp_std"}),
    "user": (1.0, {"job_name": "nightly-1", "user": "root"}),
    "name": (1.0, {"job_name": "namd"}),
}


@pytest.fixture
def asking(slurm: SlurmCluster, tmp_path: Path) -> Iterator[SlurmCluster]:
    """Let the plugin ask an agent with rules of its own, to which all take an hour on a node, and chain a minute."""
    history = tmp_path / "history.jsonl"
    with history.open("w") as file:
        for i in range(8):
            for name, (hours, reported) in HISTORY.items():
                nodes = 2 ** (i % 4)
                job = {"type": "job.completed", "system": "exa", "job_id": f"{name}{i}", "n": nodes, "unit": "nodes",
                       "start": f"2026-11-20T{i:02}:00:00Z", "run_time_s": hours * 3600 / nodes, "state": "COMPLETED"}  # fmt: skip
                file.write(json.dumps(job | reported) + "\n")
    config = Config(identify=IdentifySettings(rules=RULES), privacy=PrivacySettings(users="plain"))
    plugin = slurm.path("etc/slurm/scalewatch.lua")
    by_name = plugin.read_text()
    with learned(config, [str(history)]) as agent:
        app = create_app(agent.service, agent.metrics)
        with Server(app, "127.0.0.1", 0) as server:
            settings = {"url": f"http://127.0.0.1:{server.url.rpartition(':')[2]}", "system": "exa"}
            plugin.write_text(
                with_settings(by_name, script="true", **{key: f'"{value}"' for key, value in settings.items()})
            )
            yield slurm
    plugin.write_text(by_name)


def test_a_job_is_advised_as_what_the_rules_of_the_agent_identify_it_as(asking: SlurmCluster) -> None:
    output = submit(asking, "--job-name=md-rhodo-17", "--partition=standard", "--nodes=1", "--time=20:00")
    assert "lammps on 1 node will probably take 60 min; the time limit of 20 min would cut it off." in output
    assert "lammps" not in submit(asking, "--job-name=md-chain-17", "--partition=standard", "--nodes=1", "--time=2:00")
    assert "lammps" not in submit(asking, "--job-name=md-other", "--partition=standard", "--nodes=1", "--time=1:00")


def with_settings(plugin: str, **settings: str) -> str:
    """Return the plugin with other values in the lines at its top."""
    for name, value in settings.items():
        plugin, found = re.subn(rf"(?m)^    {name} = [^ ]+,", f"    {name} = {value},", plugin)
        assert found == 1
    return plugin


LIMIT = "--nodes=1 --time=20:00"


@pytest.mark.parametrize(
    ("command", "application"),
    [
        ("sbatch {options} /opt/md-rhodo.sh --partition=standard", None),  # options behind the script are the script's
        ("sbatch {options} --partition=standard /opt/md-rhodo.sh", "lammps"),  # the script's name is the job's
        ("sbatch {options} /opt/md.sh", "gromacs"),
        ("sbatch {options} --job-name=namd /opt/md.sh", "gromacs"),  # a rule goes before a name
        ("sbatch {options} --wrap 'module load gromacs'", "gromacs"),
        ("srun {options} /opt/vasp_std", "vasp"),
        ("srun {options} --job-name=any /opt/vasp_std", "vasp"),
        ("srun {options} --job-name=namd /opt/other", "namd"),  # Slurm's record will not name the program
        ("srun {options} --job-name=other /opt/namd", "namd"),  # nothing is known of the job by its name
        ("sbatch {options} --job-name=nightly-7 --wrap true", "nightly of root"),
        ("setpriv --reuid=1 --clear-groups sbatch {options} --job-name=nightly-7 --wrap true", None),
    ],
)
def test_script_executable_and_user_count_as_they_do_for_the_agent(
    asking: SlurmCluster, command: str, application: str | None
) -> None:
    for name, text in (("md-rhodo.sh", "true"), ("md.sh", "module load gromacs"), ("vasp_std", "true"),
                       ("other", "true"), ("namd", "true")):  # fmt: skip
        path = asking.path(f"opt/{name}")
        path.write_text(f"#!/bin/sh\n{text} 2>/dev/null || true\n")
        path.chmod(0o755)
    options = f"{LIMIT} --chdir=/var/lib/slurm --output=/dev/null"
    output = asking.run("sh", "-c", f"timeout 60 {command.format(options=options)} 2>&1 || true")
    reported = re.findall(r"scalewatch: (.*) on 1 node will probably take", output)
    assert reported == ([] if application is None else [application]), output


def test_the_default_partition_is_a_setting_of_the_plugin(asking: SlurmCluster) -> None:
    assert "lammps" not in submit(asking, "--job-name=md-rhodo-17", LIMIT)
    plugin = asking.path("etc/slurm/scalewatch.lua")
    plugin.write_text(with_settings(plugin.read_text(), defaults='{ partition = "standard" }'))
    assert "lammps on 1 node will probably take" in submit(asking, "--job-name=md-rhodo-17", LIMIT)


def test_a_question_leaves_no_file_behind(asking: SlurmCluster) -> None:
    before = {*asking.path("tmp").iterdir()}
    submit(asking, "--job-name=namd", LIMIT)
    assert {*asking.path("tmp").iterdir()} == before


def test_a_name_that_would_be_a_command_is_no_more_than_a_name(asking: SlurmCluster) -> None:
    for name in ("md-rhodo' ; touch /var/lib/slurm/owned ; '", 'md-rhodo\\" \n -o /var/lib/slurm/owned \\$(id)'):
        output = submit(asking, f'"--job-name={name}"', "--partition=standard", "--time=20:00")
        assert "lammps on 1 node will probably take" in output
    assert not asking.path("var/lib/slurm/owned").exists()


def test_an_agent_that_does_not_answer_holds_up_no_job(slurm: SlurmCluster) -> None:
    plugin = slurm.path("etc/slurm/scalewatch.lua")
    by_name = plugin.read_text()
    with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
        plugin.write_text(by_name.replace("url = nil", f'url = "http://127.0.0.1:{silent.getsockname()[1]}"'))
        try:
            began_s = time.monotonic()
            assert "lammps" not in submit(slurm, "--job-name=lammps", "--nodes=1", "--time=60:00")
            assert time.monotonic() - began_s < 10
        finally:
            plugin.write_text(by_name)


def test_nothing_of_this_runs_in_the_controller(slurm: SlurmCluster) -> None:
    assert "JobSubmitPlugins        = (null)" in slurm.run("scontrol", "show", "config")
    assert [path.name for path in sorted(PLUGINS.glob("*.lua"))] == ["cli_filter.lua", "scalewatch.lua"]


def test_every_job_ran(slurm: SlurmCluster) -> None:
    slurm.wait_idle()
