"""The Helm chart as an operator uses it: rendered by a real Helm, as objects of Kubernetes."""

import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from tests.kit.sources import ROOT

CHART = ROOT / "helm" / "scalewatch"
OLDEST, NEWEST = (
    "1.25.0",
    "1.37.0",
)  # of Kubernetes: the oldest that Chart.yaml allows, the newest whose schemas there are
Objects = list[dict[str, Any]]


class ChartError(Exception):
    """What Helm says where it refuses."""


def values(name: str) -> Path:
    """Return the file of example values with a name."""
    return CHART / "ci" / f"{name}-values.yaml"


def rendered(helm: str, *files: Path, sets: Sequence[str] = (), kubernetes: str = NEWEST) -> str:
    """Return what Helm makes of the chart, the hooks too; ChartError where it refuses."""
    return _rendered(helm, files, tuple(sets), kubernetes)


@lru_cache(maxsize=64)
def _rendered(helm: str, files: tuple[Path, ...], sets: tuple[str, ...], kubernetes: str) -> str:
    command = [helm, "template", "sw", str(CHART), "--namespace", "hpc", "--kube-version", kubernetes]
    command += [part for file in files for part in ("--values", str(file))]
    command += [part for text in sets for part in ("--set", text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChartError(done.stderr)
    return done.stdout


def objects(text: str) -> Objects:
    """Return the objects in a text of manifests."""
    return [found for found in yaml.safe_load_all(text) if found]


def named(found: Objects, kind: str, name: str) -> dict[str, Any]:
    """Return the one object of a kind and name."""
    (one,) = [each for each in found if each["kind"] == kind and each["metadata"]["name"] == name]
    return one


def pod_templates(found: Objects) -> dict[str, dict[str, Any]]:
    """Return the pod templates by the component that they run."""
    templates = [each["spec"]["template"] for each in found if each["kind"] in ("Deployment", "StatefulSet", "Job")]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in templates}
