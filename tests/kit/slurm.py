"""A real Slurm of several nodes on this machine, which writes its job records to Kafka as production does.

    with SlurmCluster("trixie", bootstrap="127.0.0.1:9092") as slurm:  # 2 s once the root is built
        job = slurm.submit("lammps", "srun sleep 2", nodes=4)
        slurm.wait_idle()

Everything runs in mount, process and host-name namespaces of its own, below one process. When that one ends, however
it ends, the kernel ends the rest and drops the mounts: nothing is left to clean up but a folder.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.kit.ports import free_ports
from tests.kit.slurm_root import cached_root, unpack

CORES_PER_NODE = 4
CONTROLLER = "head"
_ZONE = "<+0545>-5:45"  # far from UTC and no whole hours: a record with local times would be seen
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_COMMAND_TIMEOUT_S = 60.0

_SLURM_CONF = """\
ClusterName={cluster}
SlurmctldHost={controller}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/controller
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
{reporting}NodeName=nid[001-{nodes:03}] NodeHostname={controller} NodeAddr=127.0.0.1 Port=[{first}-{last}] \
CPUs={cores} RealMemory=1000
PartitionName=standard Nodes=ALL Default=YES MaxTime=60 State=UP
"""

_REPORTING = """\
JobCompType=jobcomp/kafka
JobCompLoc=/etc/slurm/kafka.conf
JobCompParams=topic={topic},enable_job_start,topic_job_start={topic}.started,\
send_comment,send_script,poll_interval=1,flush_timeout=2000
"""

# first process of the namespaces, outside the root: mounts are seen by its children only
_ENTER = """\
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
exec chroot "$1" /bin/sh -eu /start.sh
"""

# then inside the root; as process 1 it also reaps what daemons leave
_START = """\
hostname {controller}
install -d -o munge -g munge /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground &
while [ ! -S /run/munge/munge.socket.2 ]; do sleep 0.05; done
slurmctld -D &
for node in {names}; do slurmd -D -N "$node" & done
while :; do wait; sleep 1; done
"""


class SlurmCluster:
    """One slurmctld and several slurmd of a Debian suite; ends of jobs go to `topic`, starts to `started_topic`.

    `reporting` are the lines of slurm.conf by which it writes to Kafka where they are not those of the kit, `more_settings` further
    lines, `files` texts by their path in the root. Create both topics first: a record for a missing topic may come seconds late. Starts are written from Slurm 26.05
    on. Raises RuntimeError, with the end of the logs, where Slurm does not come up or refuses a command.
    """

    def __init__(
        self,
        suite: str,
        bootstrap: str,
        *,
        topic: str = "slurm.jobs",
        nodes: int = 4,
        reporting: str | None = None,
        more_settings: str = "",
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.suite, self.bootstrap, self.topic, self.nodes = suite, bootstrap, topic, nodes
        self.name = f"test-{suite}"
        self._reporting = _REPORTING.format(topic=topic) if reporting is None else reporting
        self._more_settings, self._files = more_settings, dict(files or {})
        self._folder = Path(tempfile.mkdtemp(prefix="scalewatch-slurm-"))
        self._root = self._folder / "root"
        self._process: subprocess.Popen[bytes] | None = None
        self._first: int | None = None

    @property
    def started_topic(self) -> str:
        """Topic of the records of starting jobs (Slurm 26.05 and newer)."""
        return f"{self.topic}.started"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of Slurm, such as (24, 11, 5)."""
        return tuple(int(part) for part in self.run("sinfo", "--version").split()[1].split(".")[:3])

    def start(self) -> None:
        """Unpack, configure and start everything; return when every node is idle."""
        unpack(cached_root(self.suite), self._root)
        self._configure()
        with (self._folder / "output.log").open("wb") as output:
            # killed with us (setpriv), and killing all below it when it ends (unshare)
            isolated = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child"]
            self._process = subprocess.Popen(
                [*isolated, "/bin/sh", "-euc", _ENTER, "enter", str(self._root)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._wait_ready()

    def stop(self) -> None:
        """Let the controller write its last records, then end everything and remove the folder."""
        if self._running():
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                self.run("scontrol", "shutdown")
                self._wait(lambda: not self._daemons("slurmctld"), _STOP_TIMEOUT_S)
        if self._process:
            self._process.kill()
            self._process.wait()
        self._wait(lambda: self._first is None or not Path(f"/proc/{self._first}").exists(), _STOP_TIMEOUT_S)
        shutil.rmtree(self._folder)

    def path(self, name: str) -> Path:
        """Return where a file of the root lies outside of it."""
        return self._root / name

    def run(self, *command: str) -> str:
        """Run a Slurm command against the cluster and return its output."""
        done = subprocess.run(
            self.entered(*command),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": _ZONE},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}{self._logs()}")
        return done.stdout

    def entered(self, *command: str) -> list[str]:
        """Return how a command is run inside of the cluster."""
        return ["nsenter", f"--target={self._first}", "--mount", "--pid", "--uts", "--root", "--wd", *command]

    def submit(self, name: str, script: str, *, nodes: int = 1, options: Sequence[str] = ()) -> str:
        """Submit a batch job with whole nodes and return its id; `options` are further ones of sbatch."""
        size = [f"--nodes={nodes}", f"--ntasks={nodes * CORES_PER_NODE}", "--exclusive"]
        where = ["--chdir=/var/lib/slurm", "--output=/dev/null"]
        return self.run("sbatch", "--parsable", f"--job-name={name}", *size, *where, *options, "--wrap", script).strip()

    def cancel(self, job: str) -> None:
        """Cancel a job, pending or running."""
        self.run("scancel", job)

    def wait_idle(self, timeout_s: float = 120.0) -> None:
        """Return when no job is pending, running or completing; RuntimeError after `timeout_s`."""
        if not self._wait(lambda: not self.run("squeue", "--noheader").strip(), timeout_s):
            raise RuntimeError(f"Jobs remain after {timeout_s:g} s: {self.run('squeue')}{self._logs()}")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.stop)
            self.start()
            on_error.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _configure(self) -> None:
        names = [f"nid{number:03}" for number in range(1, self.nodes + 1)]
        controller, first, *_ = free_ports(self.nodes + 1)
        settings = _SLURM_CONF.format(
            cluster=self.name, controller=CONTROLLER, port=controller, reporting=self._reporting, nodes=self.nodes,
            first=first, last=first + self.nodes - 1, cores=CORES_PER_NODE,
        )  # fmt: skip
        self._write("etc/slurm/slurm.conf", settings + self._more_settings)
        self._write("etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
        self._write("etc/slurm/kafka.conf", f"bootstrap.servers={self.bootstrap}\n")
        self._write("etc/hosts", f"127.0.0.1 localhost {CONTROLLER}\n")
        for path, text in self._files.items():
            self._write(path, text)
        self._write("start.sh", _START.format(controller=CONTROLLER, names=" ".join(names)))
        for folder in ("controller", *names):
            (self._root / "var/lib/slurm" / folder).mkdir(parents=True)
        (self._root / "var/log/slurm").mkdir(parents=True, exist_ok=True)

    def _write(self, path: str, text: str) -> None:
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        (self._root / path).write_text(text)

    def _wait_ready(self) -> None:
        if not self._wait(lambda: self._find_first() or not self._running(), _START_TIMEOUT_S) or not self._running():
            raise RuntimeError(f"The namespaces of Slurm could not be made.{self._logs()}")
        if not self._wait(lambda: not self._running() or self._idle_nodes() == self.nodes, _START_TIMEOUT_S):
            raise RuntimeError(f"{self._idle_nodes()} of {self.nodes} nodes are idle.{self._logs()}")
        if not self._running():
            raise RuntimeError(f"Slurm ended while it started.{self._logs()}")

    def _idle_nodes(self) -> int:
        try:
            return int(self.run("sinfo", "--noheader", "--states=idle", "--format=%D").strip() or 0)
        except RuntimeError:  # the controller does not answer yet
            return 0

    def _find_first(self) -> bool:
        """Find process 1 of the namespaces, once it lives inside the root; commands enter through it."""
        if self._process is None:
            return False
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        inside = [pid for pid in children if Path(f"/proc/{pid}/root").samefile(self._root)]
        self._first = int(inside[0]) if inside else None
        return bool(inside)

    def _running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _daemons(self, name: str) -> bool:
        return bool(self.run("sh", "-c", f"pidof {name} || true").strip())

    def _logs(self) -> str:
        files = [self._folder / "output.log", *sorted((self._root / "var/log/slurm").glob("*.log"))]
        return "".join(
            f"\n--- {file.name}\n{file.read_text(errors='replace')[-1500:]}" for file in files if file.exists()
        )

    @staticmethod
    def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not (met := condition()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return met
