"""`python -m tests.deploy.kube`: the chart's life on a real control plane, from its install to nothing being left."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from tests.deploy.kube_steps import Release, StepError, change, drain, fail, install, refuse, roll_back, uninstall
from tests.kit.chart import values
from tests.kit.control_plane import PROGRAMS, ControlPlane, NoControlPlaneError
from tests.kit.tools import find

# what each step shows, and the step
STEPS: Final[dict[str, Callable[[Release], str]]] = {
    "the server takes every object, and refuses a misspelt one": refuse,
    "install: the job has run, every role is ready": install,
    "upgrade: what changes no pod rolls none, a new configuration rolls all": change,
    "an upgrade whose job fails changes nothing": fail,
    "rollback: the configuration of before is back": roll_back,
    "drain: one learner after the other, never two": drain,
    "uninstall: nothing is left": uninstall,
}
HELMS: Final = ("helm4", "helm3", "helm")
HELP: Final = f"""Install, upgrade, roll back, drain and uninstall the chart on a real control plane, and print what each took.

With --programs, a control plane with three pretended nodes is started on this machine, in a folder of its own, and ended afterwards. The
folder has to hold {", ".join(PROGRAMS)}; etcd may stand there or on the path, openssl and helm on the path.
Kubernetes and kwok publish these programs with every release.

Otherwise the cluster of KUBECONFIG is used, one of kind for instance: kubectl has to be on the path. Everything happens in a namespace of
its own, which is deleted at the end. The image has to be there and a broker that it reaches: --values says which. A
drain empties a node of all that runs there, so it is left out unless --drain is given.

With --crds, a folder with the definitions of ServiceMonitor and PrometheusRule, these two are installed as well."""


@click.command(help=HELP)
@click.option("--programs", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of programs.")
@click.option("--crds", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of definitions.")
@click.option("--values", "files", type=click.Path(exists=True, path_type=Path), multiple=True, help="More values.")
@click.option("--helm", "chosen", metavar="PROGRAM", help="Which Helm; default: helm4, helm3 or helm.")
@click.option("--drain", "drains", is_flag=True, help="Drain a node of a cluster that is not pretended, too.")
def main(
    programs: Path | None,
    crds: Path | None,
    files: tuple[Path, ...],
    chosen: str | None,
    drains: bool,  # noqa: FBT001 - an option
) -> None:
    """Run the steps and print a line for each."""
    helm = next((path for name in ((chosen,) if chosen else HELMS) if (path := find(name))), None)
    if helm is None:
        raise click.UsageError("There is no helm on the path.")
    if programs is None and not os.environ.get("KUBECONFIG"):
        raise click.UsageError("Give --programs, or set KUBECONFIG to a cluster that may be used.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalewatch-kube-")))
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        kubectl = find("kubectl")
        if programs is not None:
            began_s = time.monotonic()
            try:
                plane = stack.enter_context(ControlPlane(programs.resolve(), folder))
            except NoControlPlaneError as error:
                raise click.UsageError(str(error)) from error
            click.echo(f"{time.monotonic() - began_s:6.1f} s  a control plane with pretended nodes has started")
            environment["KUBECONFIG"] = str(plane.kubeconfig)
            kubectl = str(programs.resolve() / "kubectl")
        else:
            environment["KUBECONFIG"] = os.environ["KUBECONFIG"]
        if kubectl is None:
            raise click.UsageError("There is no kubectl on the path.")
        release = Release(helm, kubectl, environment, (values("minimal"), *files), crds)
        sys.exit(_all(release, left_out=() if programs is not None or drains else (drain, fail)))


def _all(release: Release, left_out: tuple[Callable[[Release], str], ...]) -> int:
    try:
        release.begin()
        for name, step in STEPS.items():
            began_s = time.monotonic()
            if step in left_out:
                click.echo(f"NOT RUN   {name}")
                continue
            reported = step(release)
            click.echo(f"{time.monotonic() - began_s:6.1f} s  {name}: {reported}")
    except StepError as error:
        click.echo(f"FAILED    {error}", err=True)
        return 1
    finally:
        release.end()
    return 0


if __name__ == "__main__":
    main()
