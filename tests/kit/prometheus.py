"""A real Prometheus: started with a configuration, asked through its own interface."""

import math
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.kit.agent_process import until
from tests.kit.ports import free_ports


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str, config: Path, process: "subprocess.Popen[bytes]") -> None:
        self.url, self.config = url, config
        self._process = process
        self._at: dict[str, str] = {}
        self._http = httpx.Client(base_url=f"{url}/api/v1", trust_env=False, timeout=20.0)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an expression: labels (`metric`) and `value`; what is not a number is none."""
        found = self._get("query", query=expr, **self._at)["result"]
        return [each for each in found if not math.isnan(float(each["value"][1]))]

    def hold(self, moment_s: float) -> None:
        """Ask about this moment from now on: what comes later, such as a scrape that takes too long, changes nothing."""
        self._at = {"time": f"{moment_s:.3f}"}

    def label_values(self, label: str, selector: str) -> list[str]:
        values: list[str] = self._get(f"label/{label}/values", **{"match[]": selector})
        return values

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> dict[str, str]:
        """Return the health of each target, by its job."""
        return {each["labels"]["job"]: each["health"] for each in self._get("targets")["activeTargets"]}

    def reload(self) -> None:
        """Let it read its file again."""
        self._process.send_signal(signal.SIGHUP)

    def addresses(self) -> list[str]:
        """Return where each target is scraped."""
        return [each["scrapeUrl"] for each in self._get("targets")["activeTargets"]]

    def close(self) -> None:
        self._http.close()

    def _get(self, path: str, **parameters: str) -> Any:
        answer = self._http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


@contextmanager
def prometheus(program: str, folder: Path, config: str) -> Iterator[Prometheus]:
    """Run it until the end of the block; what it says goes into a file of the folder."""
    path, log_path = folder / "prometheus.yaml", folder / "prometheus.log"
    path.write_text(config)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    arguments = [f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={listen}"]
    with log_path.open("wb") as log:
        process = subprocess.Popen([program, *arguments, "--log.level=warn"], stdout=log, stderr=log)
    made = Prometheus(f"http://{listen}", path, process)
    try:
        until(lambda: _is_up(made.url) or None, 20.0, lambda: f"Prometheus is up: {log_path.read_text()[-500:]}")
        yield made
    finally:
        made.close()
        process.terminate()
        process.wait(10)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
