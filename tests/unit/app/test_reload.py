"""Reloads: what of a changed file is taken over, what is left, and what a bad one does."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from agent.app import compose
from agent.app.handover import Handover, Status
from agent.app.reload import UNDO_S, WATCH_S, Reloader
from agent.config.load import load, loads
from agent.config.references import References, references, retain
from sinks.prometheus.registry import Metrics
from tests.kit.clock import FakeClock

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
BASE = "sources: [{topics: [jobs], format: native}]\nreference: {nodes: nodes.csv}\n"


class Everything(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, name: str, default: object = None) -> str:
        return super().get(name) or "a secret of many characters"


class Running:
    """A reloader and what roles get of it."""

    def __init__(self, folder: Path, *, watch: bool = False) -> None:
        self.path, self.nodes = folder / "agent.yaml", folder / "nodes.csv"
        self.path.write_text(BASE)
        self.nodes.write_text("host\na1\n")
        config = load(self.path)
        self.clock, self.log = FakeClock(), CapturingLogger()
        self.handover = Handover.made(config, Status(self.clock.now_ms()))
        self.reloader = Reloader(str(self.path), config, self.handover, self.clock, self.log, watch=watch)

    def reload(self, text: str) -> bool:
        self.path.write_text(text)
        self.reloader.requested.set()
        return self.reloader.look()

    def lines(self, level: str) -> list[str]:
        return [f"{call.args[0]} {call.kwargs}" for call in self.log.calls if call.method_name == level]

    def measured(self) -> tuple[float, float]:
        metrics: Metrics = compose.metrics()
        self.handover.measure(metrics)
        return metrics.value("scalewatch_config_problems"), metrics.value("scalewatch_config_keys_waiting")


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


@pytest.mark.parametrize(
    "path", ["agent.yaml", *(f"samples/{path.name}" for path in (DEPLOY / "samples").glob("*.yaml"))]
)
def test_roles_get_the_configuration_as_it_was_read_with_its_files_and_secrets(path: str) -> None:
    text = (DEPLOY / path).read_text().partition("\nprivacy:")[0] + "\nprivacy: {salt: '${env:SALT}'}\n"
    config = loads(text, folder=(DEPLOY / path).parent, environment=Everything({"SALT": "grains"}))
    known = references(config.reference)
    handover = Handover.made(config, Status(0))
    retain(config.reference, References())
    assert handover.config() == config
    assert handover.config().privacy.salt.get_secret_value() == "grains"
    again = references(config.reference)
    assert (list(again.nodes), again.sensors.rules) == (list(known.nodes), known.sensors.rules)


def test_a_changed_key_is_taken_over_and_reported(running: Running) -> None:
    assert running.reload(BASE + "alerts: {slow_size: {deviation_min: 0.4}}\n")
    assert running.handover.config().alerts.slow_size.deviation_min == 0.4
    assert "alerts.slow_size.deviation_min: " in running.lines("info")[0]
    assert running.measured() == (0, 0)


def test_keys_of_topics_wait_for_a_restart_while_the_others_are_taken_over(running: Running) -> None:
    assert running.reload(BASE + "topics: {journal: other}\nhttp: {port: 9100}\n")
    config = running.handover.config()
    assert (config.http.port, config.topics.journal) == (9100, "scalewatch.journal")
    (line,) = running.lines("warning")
    assert "key waits for a restart of the agent" in line
    assert "topics.journal" in line
    assert running.measured() == (0, 1)
    assert not running.reload(BASE + "http: {port: 9100}\n")
    assert running.measured() == (0, 0)


def test_a_key_that_needs_a_partition_to_come_is_refused_until_the_restart(running: Running) -> None:
    before = running.handover.config()
    text = BASE + "topics: {journal_partitions: 2}\nsystems: {exa: {partition: 1}}\n"
    assert not running.reload(text)
    assert "restart the agent" in running.lines("error")[0]
    assert running.handover.config() == before


@pytest.mark.parametrize("bad", ["sources: [\n", BASE + "http: {prot: 1}\n", "kafka: {bootstrap: a:1}\n"])
def test_a_bad_file_changes_nothing_and_is_reported_until_it_is_corrected(running: Running, bad: str) -> None:
    before = running.handover.config()
    assert not running.reload(bad)
    assert running.handover.config() == before
    assert "configuration rejected, the previous configuration stays in use" in running.lines("error")[0]
    assert running.measured()[0] >= 1
    assert not running.reload(BASE)
    assert running.measured() == (0, 0)
    assert "configuration unchanged" in running.lines("info")[-1]


def test_a_file_that_is_gone_changes_nothing(running: Running) -> None:
    running.path.unlink()
    running.reloader.requested.set()
    assert not running.reloader.look()
    assert "cannot be read" in running.lines("error")[0]


def test_a_file_of_nodes_is_taken_over_and_kept_whatever_becomes_of_it(running: Running) -> None:
    running.nodes.write_text("host\na1\na2\n")
    assert running.reload(BASE)
    assert "file applied {'key': 'reference.nodes'}" in running.lines("info")[0]
    running.nodes.write_text("no such column\n")
    assert not running.reload(BASE)
    assert len(references(running.handover.config().reference).nodes) == 2


RESERVATIONS = """{"reservations": [{"name": "fans", "flags": ["MAINT"], "start_time": 1, "end_time": %d, "node_list": "a1"}],
"last_update": {"set": true, "number": %d}}"""


def test_a_changed_reservation_is_taken_over_and_another_print_of_the_same_is_not(tmp_path: Path) -> None:
    running, calendar = Running(tmp_path, watch=True), tmp_path / "reservations.json"
    calendar.write_text(RESERVATIONS % (100, 1))
    text = BASE.replace("nodes.csv", "nodes.csv, calendar: [reservations.json]")
    assert running.reload(text)

    def found() -> list[bool]:
        running.clock.advance(WATCH_S)
        first = running.reloader.look()
        running.clock.advance(WATCH_S)
        return [first, running.reloader.look()]

    calendar.write_text(RESERVATIONS % (100, 2))
    assert found() == [False, False]
    calendar.write_text(RESERVATIONS % (200, 3))
    assert found() == [False, True]
    assert "file applied {'key': 'reference.calendar[0]'}" in "".join(running.lines("info"))
    retain(running.handover.config().reference, References())
    (window,) = references(running.handover.config().reference).maintenance
    assert (window.end.timestamp(), window.hosts, window.comment) == (200, "a1", "reservation fans")
    calendar.unlink()
    assert found() == [False, False], "the one before stays in use"
    assert "reservations.json: cannot be read" in running.lines("error")[-1]


def test_a_configuration_that_a_role_refuses_is_replaced_by_the_one_before(running: Running) -> None:
    before = running.handover.config()
    running.nodes.write_text("host\na1\na2\n")
    running.reload(BASE + "http: {port: 9100}\n")
    assert running.reloader.undo("learner")
    assert running.handover.config() == before
    assert len(references(before.reference).nodes) == 1
    assert running.measured() == (1, 0)
    assert not running.reloader.undo("learner"), "there is none before that"


def test_a_watched_file_that_a_role_refused_is_not_tried_again(tmp_path: Path) -> None:
    running = Running(tmp_path, watch=True)
    running.reload(BASE.replace("nodes.csv", "other.csv") + "http: {port: 9100}\n")
    (tmp_path / "other.csv").write_text("host\nb1\n")
    assert running.reload(BASE.replace("nodes.csv", "other.csv") + "http: {port: 9100}\n")
    assert running.reloader.undo("learner")
    for _ in range(3):
        running.clock.advance(WATCH_S)
        assert not running.reloader.look()


def test_what_a_role_refuses_later_is_not_the_fault_of_a_reload(running: Running) -> None:
    running.reload(BASE + "http: {port: 9100}\n")
    running.clock.advance(UNDO_S + 1)
    assert not running.reloader.undo("learner")


def test_a_watched_file_is_reloaded_once_it_rests(tmp_path: Path) -> None:
    running = Running(tmp_path, watch=True)

    def look() -> bool:
        running.clock.advance(WATCH_S)
        return running.reloader.look()

    assert not look()
    for port in (9100, 9200):
        running.path.write_text(BASE + f"http: {{port: {port}}}\n")
        assert not look(), "it may be half written"
    assert look()
    assert running.handover.config().http.port == 9200
    assert not look()
    running.nodes.write_text("host\na9\n")
    assert [look(), look(), look()] == [False, True, False]


def mounted(folder: Path, version: str, **files: str) -> None:
    """Give a folder the files of a ConfigMap as kubelet does: links through `..data`, which one rename puts elsewhere."""
    link = folder / "..data"
    before = link.resolve() if link.exists() else None
    content = folder / f"..{version}"
    content.mkdir()
    for name, text in files.items():
        (content / name.replace("_", ".")).write_text(text)
    swapped = folder / "..data_tmp"
    swapped.symlink_to(content.name)
    swapped.replace(link)
    for path in content.iterdir():
        if not (folder / path.name).is_symlink():
            (folder / path.name).unlink(missing_ok=True)
            (folder / path.name).symlink_to(Path("..data") / path.name)
    if before is not None:
        shutil.rmtree(before)


def test_a_changed_config_map_is_reloaded_with_the_files_in_it(tmp_path: Path) -> None:
    running = Running(tmp_path, watch=True)
    nodes = "host\na1\n"
    mounted(tmp_path, "2026_11_20", agent_yaml=BASE, nodes_csv=nodes)

    def looks() -> list[bool]:
        found = []
        for _ in range(3):
            running.clock.advance(WATCH_S)
            found.append(running.reloader.look())
        return found

    assert looks() == [False, False, False]
    mounted(tmp_path, "2026_11_21", agent_yaml=BASE + "http: {port: 9100}\n", nodes_csv=nodes)
    assert looks() == [False, True, False]
    assert running.handover.config().http.port == 9100
    mounted(tmp_path, "2026_11_22", agent_yaml=BASE + "http: {port: 9100}\n", nodes_csv=nodes + "a2\n")
    assert looks() == [False, True, False]
    assert len(references(running.handover.config().reference).nodes) == 2
    mounted(tmp_path, "2026_11_23", agent_yaml=BASE + "http: {prot: 1}\n", nodes_csv=nodes)
    assert looks() == [False, False, False]
    assert running.measured()[0] >= 1


def test_a_file_that_is_not_watched_waits_for_the_signal(running: Running) -> None:
    running.path.write_text(BASE + "http: {port: 9100}\n")
    running.clock.advance(10 * WATCH_S)
    assert not running.reloader.look()
