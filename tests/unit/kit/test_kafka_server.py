"""Where the broker of the tests runs, and that a container of it is as the child process would be."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config

from tests.kit.docker_engine import Engine, serving
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import KAFKA
from tests.kit.kafka_server import CHOICE, ChildProcess, Container, server


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Engine], Engine]]:
    """Let an engine answer at the address that Docker's own clients ask."""
    monkeypatch.delenv(CHOICE, raising=False)
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    with ExitStack() as stack:

        def answer(engine: Engine) -> Engine:
            monkeypatch.setenv("DOCKER_HOST", stack.enter_context(serving(engine, tmp_path)))
            return engine

        yield answer


def test_a_broker_runs_in_a_container_where_an_engine_answers(
    answering: Callable[[Engine], Engine], tmp_path: Path
) -> None:
    answering(Engine())
    assert isinstance(server(tmp_path), Container)


@pytest.mark.parametrize("engine", [Engine(name="another machine"), Engine(images=False)])
def test_it_runs_from_its_jars_where_the_engine_is_elsewhere_or_has_no_image(
    answering: Callable[[Engine], Engine], tmp_path: Path, engine: Engine
) -> None:
    answering(engine)
    assert isinstance(server(tmp_path), ChildProcess)


def test_it_runs_from_its_jars_where_no_engine_answers_or_that_is_chosen(
    answering: Callable[[Engine], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(Engine())
    monkeypatch.setenv(CHOICE, "jars")
    assert isinstance(server(tmp_path), ChildProcess)
    monkeypatch.delenv(CHOICE)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert isinstance(server(tmp_path), ChildProcess)


def test_the_container_runs_the_same_command_on_the_same_properties_network_and_folder(
    answering: Callable[[Engine], Engine],
) -> None:
    engine = answering(Engine(log=b"Kafka Server started"))
    with KafkaBroker(settings={"log.segment.bytes": "1000"}) as broker:
        made, folder = engine.requested, str(broker.folder)
        commands = [body["Entrypoint"] for _, path, body in made if path == "/containers/create"]
        assert [command[0] for command in commands] == ["keytool", "keytool", "java", "java"]
        assert commands[-1][-4:] == ["-cp", "/opt/kafka/libs/*", "kafka.Kafka", f"{folder}/server.properties"]
        properties = (broker.folder / "server.properties").read_text()
        assert f"listeners=PLAINTEXT://{broker.bootstrap}," in properties
        assert "log.segment.bytes=1000" in properties
    for _, path, body in made:
        if path == "/containers/create":
            assert body["Image"] == f"apache/kafka:{KAFKA}"
            assert body["User"] == f"{os.getuid()}:{os.getgid()}"
            assert body["HostConfig"]["NetworkMode"] == "host"
            assert body["HostConfig"]["Binds"] == [f"{folder}:{folder}:rw"]
    assert not broker.folder.exists()


def test_a_container_is_frozen_killed_and_started_again_on_the_same_data(
    answering: Callable[[Engine], Engine], tmp_path: Path
) -> None:
    engine, found = answering(Engine(log=b"first ")), Container(tmp_path)
    assert not found.running()
    found.start(["java"])
    assert found.log() == b"first "
    found.pause()
    assert found.running()
    found.resume()
    found.kill()
    assert not found.running()
    found.start(["java"])
    engine.log += b"second"
    assert found.log() == b"second"
    found.remove()
    assert engine.steps() == ["start", "pause", "unpause", "kill", "wait", "start", "stop", "remove"]
