"""A Kubernetes of one machine whose nodes are pretended: the real server, controllers and scheduler, and kwok for nodes.

Pods are scheduled and become ready, but no container runs. So installs, rollouts, budgets and drains are real, logs and
probes are not.
"""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.kit.ports import free_ports

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
STAGES = Path(__file__).with_name("pretended.yaml")
START_S = 90.0
STOP_S = 20.0
# etcd 3.4 cannot stream lists, and clients that are refused ask again, later and later: so they are not offered
WITHOUT_STREAMS = "--feature-gates=WatchList=false"


class NoControlPlaneError(Exception):
    """Why there is none, in one sentence."""


class ControlPlane:
    """Runs in a folder of its own until the context ends; `kubeconfig` leads to it."""

    def __init__(self, programs: Path, folder: Path, nodes: int = 3) -> None:
        missing = [name for name in PROGRAMS if not (programs / name).exists()]
        etcd = next((path for path in (shutil.which("etcd", path=str(programs)), shutil.which("etcd")) if path), None)
        if missing or etcd is None or shutil.which("openssl") is None:
            names = ", ".join(
                [*missing, *([] if etcd else ["etcd"]), *([] if shutil.which("openssl") else ["openssl"])]
            )
            raise NoControlPlaneError(f"There is no {names} in {programs}.")
        self._programs, self._etcd, self._folder, self._nodes = programs, etcd, folder, nodes
        self._ports = free_ports(6)
        self._started: list[subprocess.Popen[bytes]] = []
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._keys()
            self._start()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _keys(self) -> None:
        token = secrets.token_hex(16)
        private, public = (str(self._folder / name) for name in ("account.key", "account.pub"))
        for command in (["genrsa", "-out", private], ["rsa", "-in", private, "-pubout", "-out", public]):
            subprocess.run(["openssl", *command], check=True, capture_output=True)
        tokens = self._folder / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text(f"{token},admin,admin,system:masters\n")
        cluster = {"server": f"https://127.0.0.1:{self._ports[0]}", "insecure-skip-tls-verify": True}
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "pretended", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "pretended", "context": {"cluster": "pretended", "user": "admin"}}],
            "current-context": "pretended",
        }
        self.kubeconfig.touch(0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def _start(self) -> None:
        server, etcd, peer, controllers, scheduler, kwok = self._ports
        folder, config = self._folder, f"--kubeconfig={self.kubeconfig}"
        store = f"http://127.0.0.1:{etcd}"
        self._run(
            self._etcd, f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}", f"--listen-peer-urls=http://127.0.0.1:{peer}", "--unsafe-no-fsync",
        )  # fmt: skip
        self._run(
            "kube-apiserver", f"--etcd-servers={store}", "--bind-address=127.0.0.1", f"--secure-port={server}",
            f"--cert-dir={folder / 'certificates'}", f"--service-account-key-file={folder / 'account.pub'}",
            f"--service-account-signing-key-file={folder / 'account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={folder / 'tokens.csv'}", *self._gates(), "--authorization-mode=RBAC",
        )  # fmt: skip
        self._until("the server to be ready", "get", "--raw", "/readyz")
        self._run(
            "kube-controller-manager", config, f"--service-account-private-key-file={folder / 'account.key'}",
            f"--root-ca-file={folder / 'certificates' / 'apiserver.crt'}", "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={controllers}", f"--cert-dir={folder / 'certificates'}",
        )  # fmt: skip
        self._run(
            "kube-scheduler", config, "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={scheduler}", f"--cert-dir={folder / 'certificates'}",
        )  # fmt: skip
        self._run("kwok", config, "--manage-all-nodes=true", f"--config={STAGES}", f"--server-address=127.0.0.1:{kwok}")
        self._make_nodes()
        self._until("nodes", "wait", "--for=condition=Ready", "node", "--all", "--timeout=1s")
        self._until("the account of the first namespace", "get", "serviceaccount", "default")

    def _gates(self) -> list[str]:
        reported = subprocess.run([self._etcd, "--version"], capture_output=True, text=True, check=True).stdout
        return [WITHOUT_STREAMS] if "etcd Version: 3.4." in reported else []

    def _make_nodes(self) -> None:
        nodes = [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"node{number}", "labels": {"kubernetes.io/hostname": f"node{number}"}},
            }
            for number in range(1, self._nodes + 1)
        ]
        done = self._kubectl("create", "-f", "-", text=yaml.safe_dump_all(nodes))
        if done.returncode:
            raise NoControlPlaneError(f"No nodes could be made: {done.stderr}")

    def _run(self, program: str, *arguments: str) -> None:
        path = program if os.sep in program else str(self._programs / program)
        with (self._folder / f"{Path(program).name}.log").open("wb") as log:
            self._started.append(subprocess.Popen([path, *arguments], stdout=log, stderr=log, cwd=self._folder))

    def _kubectl(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command: Sequence[str | Path] = [self._programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, input=text, check=False)

    def _until(self, what: str, *arguments: str) -> None:
        deadline_s = time.monotonic() + START_S
        while (done := self._kubectl(*arguments)).returncode:
            ended = [str(each.args) for each in self._started if each.poll() is not None]
            if ended or time.monotonic() > deadline_s:
                reason = f"ended: {ended[0]}" if ended else done.stderr.strip()[-300:]
                raise NoControlPlaneError(f"Waited for {what}; {reason}. The logs are in {self._folder}.")
            time.sleep(0.2)

    def _stop(self) -> None:
        # backwards, one after the other: the server hangs where its store goes first
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._started.clear()
