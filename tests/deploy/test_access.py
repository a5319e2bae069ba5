"""What deploy/ACCESS.md tells to write is taken by those who read it."""

import re
import subprocess
from pathlib import Path

import pytest

from agent.app.compose import access
from agent.config.checks import notes
from agent.config.load import loads
from sinks.web.access import Reader
from tests.kit.tools import tool

PAGE = Path(__file__).resolve().parents[2] / "deploy" / "ACCESS.md"
IN_FILE = "0123456789abcdef0123456789abcdef"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_configuration_is_good_and_means_what_the_page_states(tmp_path: Path) -> None:
    (tmp_path / "report.token").write_text("fedcba9876543210fedcba9876543210\n")
    environment = {"SCALEWATCH_PROMETHEUS_TOKEN": IN_FILE, "SCALEWATCH_SALT": "pepper"}
    config = loads(blocks("yaml")[0], folder=tmp_path, environment=environment)
    found = access(config)
    assert found is not None
    assert found.reader_of({"type": "http", "headers": [(b"authorization", b"Bearer " + IN_FILE.encode())]}) == Reader()
    scope = {"type": "http", "headers": [(b"x-forwarded-user", b"alice")], "client": ("127.0.0.1", 1)}
    assert (reported := found.reader_of(scope)) is not None
    assert reported.operator
    noted = {path[-1] for path, _ in notes(config) if path[0] in ("http", "privacy")}
    assert noted == {0}  # the machine of the proxy is trusted, which the page says, too


@pytest.mark.tools
def test_prometheus_takes_its_part(tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    file.write_text(blocks("yaml")[1].replace("/etc/prometheus", str(tmp_path)))
    (tmp_path / "scalewatch.token").write_text(IN_FILE)
    subprocess.run([tool("promtool"), "check", "config", file], check=True, capture_output=True)
