"""From topics of producers to pages: Prometheus, OpenTelemetry, XALT, LDMS, ExaMon, CloudEvents and Avro, through the whole agent in one process."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.applications import Starlette

from agent.app.embedded import Embedded
from agent.config.roles import SchemaRegistrySettings
from agent.config.tree import Config, Source, SourceFormat
from agent.decode.avro import schema_number, wire_messages
from agent.decode.telemetry.ldms import CPU_TICKS
from processors.contracts.names import parse_rfc3339, rfc3339
from sinks.prometheus.registry import Metrics
from sinks.web.server import create_app
from tests.kit.agent_process import until
from tests.kit.clock import FakeClock
from tests.kit.get import get, get_json
from tests.kit.schema_registry import LOADAVG, FakeRegistry, row, schema_registry

CASES = Path(__file__).parents[2] / "cases" / "decode"
PROTOBUF = (CASES / "otlp-protobuf" / "input.bin").read_bytes()
START_MS = parse_rfc3339("2026-08-20T09:14:00Z")  # the minute of the batches of the cases
FORMATS: dict[str, SourceFormat] = {"prometheus": "prometheus", "otlp": "otlp", "xalt": "xalt", "jobs": "slurm"}


def load(second: int) -> bytes:
    labels = {"__name__": "node_load1", "instance": "nid000007:9100", "job": "node"}
    time = rfc3339(START_MS + second * 1000)
    return json.dumps({"labels": labels, "name": "node_load1", "timestamp": time, "value": "63.97"}).encode()


def scraped(second: int) -> bytes:
    """Return the batch of the case, which was scraped 44 s after the start, as of another time."""
    at_first, then = (int((START_MS + 1000 * each) * 1e6).to_bytes(8, "little") for each in (44, second))
    return PROTOBUF.replace(at_first, then)


def completion() -> bytes:
    record = json.loads((CASES / "slurm-26.05" / "input.jsonl").read_bytes().splitlines()[0])
    data = {**record, "state": "COMPLETED"}
    return json.dumps({"specversion": "1.0", "type": "job", "source": "/exa", "id": "1", "data": data}).encode()


@pytest.fixture(scope="module")
def agent() -> Iterator[Embedded]:
    clock = FakeClock(START_MS + 60_000)
    sources = tuple(Source(topics=(name,), format=name_of, system="exa") for name, name_of in FORMATS.items())
    agent = Embedded(Config(sources=sources), clock)
    collector, producer = agent.collector(), agent.log.producer()
    collector.step(clock.now_ms(), 0.0)
    run = (CASES / "xalt-runs" / "input.jsonl").read_bytes().splitlines()[2]
    messages = [("xalt", run), ("jobs", completion())]
    messages += [("otlp", scraped(second)) for second in range(44, 150, 15)]
    messages += [("prometheus", load(second)) for second in range(0, 150, 15)]
    for topic, value in messages:
        producer.send(topic, value, timestamp_ms=clock.now_ms())
    producer.flush(1.0)
    for _ in range(5):
        collector.step(clock.now_ms() + 120_000, 0.0)
        agent.step()
    agent.tick(START_MS + 1_800_000)
    agent.step()
    yield agent
    agent.close()


@pytest.fixture(scope="module")
def app(agent: Embedded) -> Starlette:
    return create_app(agent.service, Metrics(formats=(), reasons=(), processors=()))


def test_nothing_of_the_producers_is_refused(agent: Embedded) -> None:
    assert [(each.topic, each.detail) for each in agent.service.dead_letters()] == []


def test_a_job_of_slurm_in_an_envelope_has_the_name_that_xalt_gives_it(app: Starlette) -> None:
    (run,) = get_json(app, "/api/v1/runs")["rows"]
    assert (run["job_id"], run["application_id"], run["run_time_s"]) == ("8421337", "exa/gmx_mpi//nodes", 600.0)
    assert "gmx_mpi" in get(app, "/jobs").text


@pytest.mark.parametrize(("host", "resource"), [("nid000007", "load1"), ("nid001042", "power_w>system")])
def test_a_host_that_prometheus_or_opentelemetry_measured_has_a_page(app: Starlette, host: str, resource: str) -> None:
    page = get(app, f"/hosts/exa/{host}")
    assert page.status_code == 200
    assert resource.partition(">")[0].removesuffix("_w") in page.text


def ticks(second: int) -> bytes:
    """Return the row of procstat2 that adds up all processors, a quarter of whose time is idle."""
    spent = dict.fromkeys(CPU_TICKS, 0) | {"cpu_list.idle": 25 * second, "cpu_list.user": 75 * second}
    row = {"timestamp": START_MS / 1000 + second, "producer": "nid000007", "cpu_list.name": "cpu", **spent}
    return json.dumps(row).encode()


@pytest.fixture(scope="module")
def ldms() -> Iterator[Embedded]:
    """An agent that reads rows of LDMS about hosts and jobs, ExaMon with the topic of MQTT as the key, and jobs that Slurm names."""
    clock = FakeClock(START_MS + 60_000)
    formats: dict[str, SourceFormat] = {"ldms": "ldms", "examon": "examon", "jobs": "slurm"}
    sources = tuple(Source(topics=(name,), format=name_of, system="exa") for name, name_of in formats.items())
    with closing(Embedded(Config(sources=sources), clock)) as agent:
        collector, producer = agent.collector(), agent.log.producer()
        collector.step(clock.now_ms(), 0.0)
        started = {"component_id": 7, "job_id": 8421337, "task_rank": 0, "is_thread": 0, "exe": "/apps/bin/pw.x"}
        process = json.dumps({"timestamp": START_MS / 1000, **started, "stat_utime": 900, "stat_stime": 1}).encode()
        mqtt = b"org/e4/cluster/exa/node/cn01/plugin/ipmi_pub/chnl/data/total_power"
        messages: list[tuple[str, bytes, bytes | None]] = [("ldms", process, None), ("jobs", completion(), None)]
        for second in range(0, 150, 15):
            messages.append(("ldms", ticks(second), None))
            messages.append(("examon", f"580.0;{START_MS // 1000 + second}.000".encode(), mqtt))
        for topic, value, key in messages:
            producer.send(topic, value, key=key, timestamp_ms=clock.now_ms())
        producer.flush(1.0)
        for _ in range(5):
            collector.step(clock.now_ms() + 120_000, 0.0)
            agent.step()
        agent.tick(START_MS + 1_800_000)
        agent.step()
        yield agent


def test_rows_of_ldms_name_a_job_and_measure_a_host_and_examon_measures_another(ldms: Embedded) -> None:
    shown = create_app(ldms.service, Metrics(formats=(), reasons=(), processors=()))
    assert [(each.topic, each.detail) for each in ldms.service.dead_letters()] == []
    (run,) = get_json(shown, "/api/v1/runs")["rows"]
    assert (run["job_id"], run["application_id"]) == ("8421337", "exa/pw.x//nodes")
    assert "pw.x" in get(shown, "/jobs").text
    hosts = {host["host"]: host["resources"] for host in get_json(shown, "/api/v1/hosts")["rows"]}
    assert {each["resource"]: each["window"]["mean"] for each in hosts["nid000007"]} == {"cpu_available": 0.25}
    assert {each["resource"] for each in hosts["cn01"]} == {"power_w>system"}
    assert "power" in get(shown, "/hosts/exa/cn01").text


def rows_in_avro(registry: FakeRegistry) -> Iterator[bytes]:
    """Yield rows of LDMS and the completion of a job, whose schemas the registry has."""
    case = CASES / "ldms-avro"
    registry.hold(37, LOADAVG)
    registry.hold(41, (case / "schema-41.avsc").read_text())
    yield from (row(START_MS + second * 1000, "nid001042", 3.0) for second in range(0, 150, 15))
    yield next(value for value in wire_messages((case / "input.bin").read_bytes()) if schema_number(value) == 41)


@pytest.fixture(scope="module")
def avro() -> Iterator[Embedded]:
    """An agent that read one topic in Avro, by the schemas of a registry on this machine."""
    clock = FakeClock(START_MS + 60_000)
    with schema_registry() as registry:
        config = Config(
            sources=(Source(topics=("avro",), encoding="avro", system="exa"),),
            schema_registry=SchemaRegistrySettings(url=registry.url),
        )
        with closing(Embedded(config, clock)) as agent:
            collector, producer = agent.collector(), agent.log.producer()
            collector.step(clock.now_ms(), 0.0)
            for value in rows_in_avro(registry):
                producer.send("avro", value, timestamp_ms=clock.now_ms())
            producer.flush(1.0)

            def is_read() -> bool | None:
                collector.step(clock.now_ms() + 120_000, 0.0)
                return (collector.lag() == 0 and not collector.reporting()) or None

            until(is_read, 20.0, "the topic is read")
            collector.step(clock.now_ms() + 120_000, 0.0)
            agent.tick(START_MS + 1_800_000)
            agent.step()
            yield agent


def test_rows_and_jobs_in_avro_are_on_pages(avro: Embedded) -> None:
    shown = create_app(avro.service, Metrics(formats=(), reasons=(), processors=()))
    assert [(each.topic, each.detail) for each in avro.service.dead_letters()] == []
    page = get(shown, "/hosts/exa/nid001042")
    assert page.status_code == 200
    assert "load1" in page.text
    (run,) = get_json(shown, "/api/v1/runs")["rows"]
    assert (run["job_id"], run["application_id"], run["run_time_s"]) == ("812", "exa/lammps//nodes", 7284.0)
