"""The image: built from the Dockerfile as it is, and run as nobody on a file system that is read-only."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deploy.packages.image import archive
from processors import __version__
from tests.kit.agent_process import until
from tests.kit.image import DOCKERFILE, NAME, ROOT, Image, base_name, built
from tests.kit.ports import free_ports
from tests.kit.tools import REQUIRED, tool

ADDED_MAX_MB = 240  # beyond the base, three quarters of it numpy and scipy
SOON_S = 60.0
EVERY_MODULE = """
import importlib, pkgutil
for name in ("agent", "processors", "sinks"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        of_an_extra = module.name.startswith("agent.log.kafka.confluent")
        if not (of_an_extra or module.name.endswith("__main__")):
            importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    tool("buildah"), tool("mmdebstrap")
    if reason := why_not():
        pytest.fail(reason) if os.environ.get(REQUIRED) == "1" else pytest.skip(reason)
    with built(tmp_path_factory.mktemp("image")) as made:
        yield made


def why_not() -> str | None:
    """Return why no image can be built and run here, None where it can."""
    if os.geteuid() != 0:
        return "An image is built and run by root here, who may mount."
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "This machine does not let root have mounts of its own." if tried.returncode else None


@pytest.mark.tools
def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert linter is not None, "hadolint comes with the dependencies of developers"
    done = subprocess.run([linter, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_is_pinned_and_nothing_but_the_product_is_sent_to_the_builder() -> None:
    tag = base_name().rpartition(":")[2]
    assert tag.count(".") == 2  # a version to the patch
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert "*" in lines
    assert sent == {word for line in DOCKERFILE.read_text().splitlines() if line.startswith("COPY ") and "--from" not in line
                    for word in line.split()[1:-1]}  # fmt: skip


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_the_image_is_small_and_nobody_may_change_it(image: Image) -> None:
    home = image.root / "opt" / "scalewatch"
    used = subprocess.run(["du", "-sm", home], capture_output=True, text=True, check=True).stdout
    assert int(used.split()[0]) < ADDED_MAX_MB
    installed = {path.name for path in home.glob("lib/python3*/site-packages/*")}
    assert {"agent", "processors", "sinks"} < installed
    assert installed.isdisjoint({"pip", "setuptools", "hatchling", "pytest"})
    assert not (image.root / "src").exists()
    assert not list((image.root / "etc").glob("pip.conf"))
    user, group = map(int, image.config["User"].split(":"))
    assert user >= 10_000
    assert group >= 10_000
    tried = subprocess.run(
        image.command("sh", "-c", "id -u; touch /home/x /opt/scalewatch/x"), capture_output=True, text=True, check=False
    )
    assert tried.stdout.split() == [str(user)]
    assert tried.stderr.count("Read-only file system") == 2


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_its_commands_work(image: Image) -> None:
    assert image.output("--version") == f"scalewatch {__version__}\n"
    assert "journal_partitions" in image.output("describe", "config")
    assert "Usage: scalewatch" in image.output(*image.config["Cmd"])


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_nothing_that_the_product_imports_was_left_behind(image: Image) -> None:
    done = subprocess.run(image.command("python", "-c", EVERY_MODULE), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_it_goes_into_one_file_that_registries_take(image: Image, tmp_path: Path) -> None:
    with tarfile.open(archive(NAME, __version__, tmp_path, image.store)) as tar:
        found = {*tar.getnames()}
        (manifest,) = json.loads(content(tar, "index.json"))["manifests"]
        listed = json.loads(content(tar, blob(manifest)))
    assert manifest["annotations"]["org.opencontainers.image.ref.name"] == __version__
    assert {blob(each) for each in (listed["config"], *listed["layers"])} <= found


@pytest.mark.tools
@pytest.mark.slow
@pytest.mark.thorough
def test_the_demo_runs_from_it_and_its_health_check_reports_it(image: Image) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    output = image.root.parent / "demo.log"
    with output.open("wb") as log:
        process = subprocess.Popen(image.entry("demo", "--port", str(port)), stdout=log, stderr=log)
    try:
        until(lambda: answers(f"{url}/readyz"), SOON_S, lambda: output.read_text()[-2000:])
        assert "Scalewatch" in httpx.get(url, trust_env=False).text
        until(lambda: httpx.get(f"{url}/api/v1/applications", trust_env=False).json()["rows"], SOON_S, "applications")
        assert health(image, url) == 0
    finally:
        process.send_signal(getattr(signal, image.config["StopSignal"]))
        code = process.wait(SOON_S)
    assert code in {0, -signal.SIGTERM, 128 + signal.SIGTERM}
    assert health(image, url) != 0


def content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def blob(described: dict[str, str]) -> str:
    return f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def health(image: Image, url: str) -> int:
    """Return the exit code of the image's own health check."""
    kind, *check = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    requested = image.command(f"SCALEWATCH_HEALTH={url}/healthz", *check)
    return subprocess.run(requested, capture_output=True, timeout=SOON_S, check=False).returncode
