"""Steps of the chart's life: each does something to a release, looks at what became of it, and says what it saw."""

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.chart import CHART

NAME = "sw"
SHARDS, COLLECTORS = 2, 2
WAIT_S = 120
OPERATORS = ("servicemonitors", "prometheusrules")
KINDS = (
    "pods,services,deployments,replicasets,statefulsets,controllerrevisions,jobs,configmaps,serviceaccounts,secrets,"
    "poddisruptionbudgets,networkpolicies,ingresses,horizontalpodautoscalers,endpointslices"
)


class StepError(Exception):
    """What was not as it has to be."""


class Release(NamedTuple):
    """A release of the chart, in a namespace of its own."""

    helm: str
    kubectl: str
    environment: Mapping[str, str]
    files: tuple[Path, ...]
    crds: Path | None
    namespace: str = f"scalewatch-{secrets.token_hex(3)}"

    def begin(self) -> None:
        """Make a namespace that takes no pods with rights, and the definitions that operators bring."""
        if self.crds is not None:
            names = [path for kind in OPERATORS for path in sorted(self.crds.glob(f"*_{kind}.yaml"))]
            if len(names) != len(OPERATORS):
                raise StepError(f"{self.crds} has no definitions of {' and '.join(OPERATORS)}.")
            for path in names:
                self.ask("apply", "--server-side", "--filename", str(path))
            self.ask("wait", "--for=condition=Established", "crd", "--all", f"--timeout={WAIT_S}s")
        self.ask("create", "namespace", self.namespace)
        self.ask("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted")

    def end(self) -> None:
        """Remove the namespace, whatever happened before."""
        self._run([self.kubectl, "delete", "namespace", self.namespace, "--ignore-not-found", f"--timeout={WAIT_S}s"])

    def ask(self, *arguments: str, text: str | None = None) -> str:
        """Return what kubectl says; StepError where it refuses."""
        done = self._run([self.kubectl, "--namespace", self.namespace, *arguments], text)
        if done.returncode:
            raise StepError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def objects(self, kinds: str) -> list[dict[str, Any]]:
        """Return what there is of the release."""
        found = self.ask("get", kinds, "--selector", f"app.kubernetes.io/instance={NAME}", "--output", "json")
        items: list[dict[str, Any]] = json.loads(found)["items"]
        return items

    def pods(self, role: str) -> dict[str, str]:
        """Return the identities of a role's pods by name."""
        return {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in self.objects("pods")
            if each["metadata"]["labels"]["app.kubernetes.io/component"] == role
        }

    def to(self, command: str, *arguments: str) -> str:
        """Return what Helm says; StepError where it refuses."""
        done = self._run([self.helm, command, "--namespace", self.namespace, *arguments])
        if done.returncode:
            raise StepError(f"helm {command}: {done.stderr.strip()}")
        return done.stdout

    def options(self, *sets: str) -> list[str]:
        """Return the values of the release as arguments."""
        chosen = [
            f"config.topics.journal_partitions={SHARDS}",
            f"collector.replicas={COLLECTORS}",
            "networkPolicy.enabled=true",
        ]
        chosen += ["dashboards.enabled=true", "topics.backoffLimit=0", *sets]
        chosen += ["serviceMonitor.enabled=true", "prometheusRule.enabled=true"] if self.crds else []
        files = [part for path in self.files for part in ("--values", str(path))]
        return [NAME, str(CHART), *files, *(part for text in chosen for part in ("--set", text))]

    def waiting(self) -> list[str]:
        """Return the arguments that make Helm wait."""
        return ["--wait", "--timeout", f"{WAIT_S}s"]

    def hook(self) -> dict[str, Any]:
        """Return how the job ran last."""
        hooks = json.loads(self.to("status", NAME, "--output", "json"))["hooks"]
        (job,) = [each for each in hooks if each["kind"] == "Job"]
        last: dict[str, Any] = job["last_run"]
        return last

    def _run(self, command: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, input=text, check=False, env=dict(self.environment)
        )


def _need(what: str, *, holds: bool) -> None:
    if not holds:
        raise StepError(what)


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise StepError(f"Waited {WAIT_S} s for this: {what}.")
        time.sleep(0.2)


def refuse(release: Release) -> str:
    """Have the server check every object without making it; a misspelt field is refused."""
    server = json.loads(release.ask("version", "--output", "json"))["serverVersion"]["gitVersion"]
    text = release.to("template", *release.options(), "--kube-version", server)
    apply = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    taken = release.ask(*apply, text=text).strip().splitlines()
    try:
        release.ask(*apply, text=text.replace("startupProbe", "startUpProbe"))
    except StepError as error:
        _need(f"another complaint: {error}", holds="startUpProbe" in str(error))
        return f"{len(taken)} objects, Kubernetes {server}"
    raise StepError("The server took a misspelt field.")


def install(release: Release) -> str:
    """Install and wait."""
    release.to("install", *release.options(), *release.waiting())
    learners, collectors = release.pods("learner"), release.pods("collector")
    _need(f"learners: {learners}", holds=list(learners) == [f"{NAME}-scalewatch-learner-{n}" for n in range(SHARDS)])
    _need(f"collectors: {collectors}", holds=len(collectors) == COLLECTORS)
    _need(f"the job: {release.hook()}", holds=release.hook()["phase"] == "Succeeded")
    _need("the job and what it brought are gone", holds=release.objects("jobs") == [])
    return f"{len(release.objects(KINDS))} objects, {SHARDS} learners, {COLLECTORS} collectors"


def change(release: Release) -> str:
    """Upgrade to the same values, then to another configuration."""
    before, ran = _all_pods(release), release.hook()
    release.to("upgrade", *release.options("ingress.className=other"), *release.waiting())
    _need("pods that nothing changed were replaced", holds=_all_pods(release) == before)
    _need("the job did not run again", holds=release.hook()["started_at"] != ran["started_at"])
    release.to("upgrade", *release.options("config.log.level=debug"), *release.waiting())
    after = _all_pods(release)
    _need("pods of the old configuration are left", holds=not set(before.values()) & set(after.values()))
    _need(f"pods: {sorted(after)}", holds=len(after) == SHARDS + COLLECTORS)
    _need("the configuration is the old one", holds='level: "debug"' in _configuration(release))
    return f"{len(after)} pods replaced"


def fail(release: Release) -> str:
    """Upgrade to a configuration with which the job fails."""
    before = _all_pods(release), _configuration(release)
    sets = ("config.log.level=warning", "pod.annotations.scalewatch/pretend=failure")
    try:
        release.to("upgrade", *release.options(*sets), *release.waiting())
    except StepError as error:
        _need(f"another reason: {error}", holds="pre-upgrade hooks failed" in str(error))
        _need("something has changed", holds=(_all_pods(release), _configuration(release)) == before)
        (job,) = release.objects("jobs")
        return f"refused, and {job['metadata']['name']} is kept for its log"
    raise StepError("The upgrade went on though the job failed.")


def roll_back(release: Release) -> str:
    """Go back to the first revision."""
    before = _all_pods(release)
    release.to("rollback", NAME, "1", *release.waiting())
    after = _all_pods(release)
    _need("pods of the newer configuration are left", holds=not set(before.values()) & set(after.values()))
    _need("the configuration is the newer one", holds="level:" not in _configuration(release))
    return f"{len(after)} pods replaced"


def drain(release: Release) -> str:
    """Drain the one node that has both learners: the second stays until the first is ready elsewhere."""
    nodes = [each["metadata"]["name"] for each in json.loads(release.ask("get", "nodes", "--output", "json"))["items"]]
    crowded, *others = nodes
    role = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component=learner"
    release.ask("cordon", *others)
    release.ask("delete", "pods", "--selector", role, "--wait=true")
    release.ask("rollout", "status", f"statefulset/{NAME}-scalewatch-learner", f"--timeout={WAIT_S}s")
    first, second = release.pods("learner")
    release.ask("cordon", crowded)
    _until("the budget knows the learners", lambda: _allowed(release) == 1)
    _evict(release, first)
    _until("the first learner waits for a node", lambda: _phase(release, first) == "Pending")
    try:
        _evict(release, second)
    except StepError as error:
        _need(f"another reason: {error}", holds="disruption budget" in str(error))
    else:
        raise StepError("Both learners were taken away at once.")
    release.ask("uncordon", *others)
    release.ask("drain", crowded, "--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={WAIT_S}s")
    release.ask("rollout", "status", f"statefulset/{NAME}-scalewatch-learner", f"--timeout={WAIT_S}s")
    left = [each for each in release.objects("pods") if each["spec"].get("nodeName") == crowded]
    _need(f"pods on the drained node: {len(left)}", holds=not left)
    release.ask("uncordon", crowded)
    return "the second eviction was refused until the first learner was back"


def uninstall(release: Release) -> str:
    """Uninstall and look for leftovers; the job that failed is the only one, for its log."""
    release.to("uninstall", NAME, *release.waiting())
    release.ask("delete", "jobs,configmaps", "--selector", "app.kubernetes.io/component=topics")
    _until("nothing of the release is left", lambda: release.objects(KINDS) == [])
    if release.crds:
        _need("objects of operators are left", holds=release.objects(",".join(OPERATORS)) == [])
    return f"looked for {len(KINDS.split(','))} kinds"


def _all_pods(release: Release) -> dict[str, str]:
    return release.pods("learner") | release.pods("collector")


def _configuration(release: Release) -> str:
    found = json.loads(release.ask("get", "configmap", f"{NAME}-scalewatch", "--output", "json"))
    return str(found["data"]["agent.yaml"])


def _phase(release: Release, pod: str) -> str:
    found = [each for each in release.objects("pods") if each["metadata"]["name"] == pod]
    return str(found[0]["status"].get("phase")) if found else "gone"


def _allowed(release: Release) -> int:
    budget = json.loads(release.ask("get", "poddisruptionbudget", f"{NAME}-scalewatch-learner", "--output", "json"))
    return int(budget.get("status", {}).get("disruptionsAllowed", 0))


def _evict(release: Release, pod: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": release.namespace},
    }
    path = f"/api/v1/namespaces/{release.namespace}/pods/{pod}/eviction"
    release.ask("create", "--raw", path, "--filename", "-", text=json.dumps(eviction))
