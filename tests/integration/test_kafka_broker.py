"""The broker that the tests start leaves nothing behind."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError, class_path

pytestmark = pytest.mark.kafka
START_AND_REPORT = """
import time
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_server import ChildProcess
broker = KafkaBroker(runs_in=ChildProcess)
broker.start()
print(broker.server.pid, broker.folder, flush=True)
time.sleep(600)
"""


def test_a_broker_ends_with_the_process_that_started_it_however_that_ends(kafka: KafkaBroker) -> None:
    try:
        class_path()
    except NoKafkaError as error:  # the other broker of this machine runs in a container, which Docker removes
        pytest.skip(str(error))
    owner = subprocess.Popen([sys.executable, "-c", START_AND_REPORT], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, folder = owner.stdout.readline().split()
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 60.0
    while _is_alive(int(pid)):
        assert time.monotonic() < deadline, "the broker lives on"
        time.sleep(0.05)
    shutil.rmtree(folder)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return False
    return state != "Z"
