"""What a start does not load: it costs processor time that a person waits for."""

import subprocess
import sys

import pytest

from tests.kit.image import ROOT

LATE = {"scipy", "markdown_it", "httpx", "fastavro"}  # libraries that one feature needs
PAGES = {"jinja2", "uvicorn"}
FOLD = {"processors.pipeline.shard"}


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("agent.cli.demo", {"scipy", "markdown_it", "fastavro"}),  # its screen is of rich
        ("agent.cli.run", LATE | PAGES | FOLD),  # the parent of the roles
        ("agent.app.roles", LATE | FOLD),  # a role; a collector folds nothing
        ("agent.cli.predict", LATE | PAGES),
    ],
)
def test_a_start_loads_what_it_needs_and_nothing_that_can_wait(module: str, late: set[str]) -> None:
    code = f"import sys, {module}; print(sorted({late!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_looks_for_garbage_while_a_role_is_loaded() -> None:
    code = """
import gc
looks = []
gc.callbacks.append(lambda phase, info: looks.append(info) if phase == "start" else None)
import agent.cli
looks.clear()
with agent.cli.lasting():
    import agent.app.roles
print(len(looks), gc.isenabled(), gc.get_freeze_count() > 100_000)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True", "True"]


def test_a_learner_loads_what_it_will_need_while_it_has_nothing_to_do() -> None:
    code = """
import sys
from agent.app import compose
from agent.app.roles import LearnerRole
from agent.config.tree import Config
from agent.log.memory import MemoryBroker, MemoryLog
from agent.config.topics import own_topics
from tests.kit.clock import FakeClock
config = Config()
log = MemoryLog(MemoryBroker(), state_topic=config.topics.state)
log.create(own_topics(config))
role = LearnerRole(config, log, compose.metrics(), FakeClock(), restarts=0)
role.open()
before = "scipy.special" in sys.modules
role.step()
print(before, "scipy.special" in sys.modules)
role.close()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
