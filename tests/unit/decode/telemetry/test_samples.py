"""Records as the producers' sources and manuals show them (values are illustrative), and what they become."""

import numpy as np
import pytest

from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.message import DecodeOptions, TelemetryOptions
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded
from processors.contracts.telemetry import TAKEN, DecodedBatch, MetricMapping, SeriesIndex, Telemetry
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS as JOBS_MS
from tests.kit.job_records import completed, slurm_record

RECEIVED_MS = 1_787_217_300_000
TIME_MS = 1_787_217_284_000
OPTIONS = TelemetryOptions(decode=DecodeOptions(default_system="exa"), hosts={1042: "nid001042"})

TELEGRAF_CPU = (
    b'{"fields":{"usage_guest":0.0,"usage_idle":2.5,"usage_iowait":0.1},"name":"cpu",'
    b'"tags":{"cpu":"cpu-total","host":"nid001042"},"timestamp":1787217284}\n'
)
LINES = rb"""cpu,cpu=cpu-total,host=nid001042 usage_active=97.5,usage_idle=2.5 1787217284000000000
system,host=nid001042 load1=63.97,load5=61.2,n_cpus=128i 1787217284000000000
rdt_metric,cores=12\,19,host=r2-compute-20,name=IPC,process=top value=0 1598962030000000000
slurm_jobs,host=hoth,job_id=23160 command="/opt/a b, c=\"d\"",cpus=2i,state="RUNNING" 1723466497000000000
mem,host=nid001042 free=1024i,available=2048u 1787217284000000000
"""
CLUSTERCOCKPIT = b"""flops_any,hostname=e1208,type=core,type-id=23 value=1203.3 1740027951
cpu_load,hostname=e1208,type=node,type-id=0 value=71.8 1740027951"""
LOADAVG = (
    b'{"timestamp":1787217284.001733,"component_id":1042,"job_id":8421337,"app_id":0,"load1min":3.0,'
    b'"load5min":61.200000000000003,"runnable":66,"newest_pid":118234}'
)
PROCSTAT = (
    b'{"timestamp":1787217284.001733,"producer":"nid7","component_id":1042,"job_id":0,"app_id":0,'
    b'"cpu_list.name":"cpu","cpu_list.user":901234,"cpu_list.idle":8123991,"ctxt":88123912}'
)
SYSPAPI = b'{"timestamp":1787217284.001733,"component_id":1042,"PAPI_TOT_INS":[18234455123,17999123412]}'
COLLECTD = (
    b'[{"values":[63.97,61.2,40.03],"dstypes":["gauge","gauge","gauge"],"dsnames":["shortterm","midterm","longterm"],'
    b'"time":1787217284.001,"interval":10.000,"host":"nid001042","plugin":"load","plugin_instance":"","type":"load",'
    b'"type_instance":""}]'
)
EXTRACT = b"""# nws_extract -h 0, the default columns
1093555200 0.912345 0.905512 0.021301 0.908113 0.000913 green.ufo.edu:8060 green.ufo.edu:8060 availableCpu
1093555210 80.0 79.0 1.0 79.0 1.0 green.ufo.edu:8060 blue.ufo.edu:8060 bandwidthTcp
"""


def predicted(batch: DecodedBatch, index: SeriesIndex) -> dict[str, float]:
    return {
        "/".join(index[number][1:]): value
        for number, value in zip(batch.samples.series.tolist(), batch.samples.value.tolist(), strict=True)
    }


def decoded(format_name: str, *values: bytes, options: TelemetryOptions = OPTIONS) -> tuple[DecodedBatch, SeriesIndex]:
    index = SeriesIndex(1000)
    return TELEMETRY[format_name](options)(values, [RECEIVED_MS] * len(values), index), index


@each(
    ("format_name", "value", "expected"),
    [
        ("telegraf", TELEGRAF_CPU, {"nid001042/cpu_available": 0.025}),
        ("telegraf", b'{"metrics":[' + TELEGRAF_CPU.strip() + b"]}", {"nid001042/cpu_available": 0.025}),
        (
            "line-protocol",
            LINES,
            {
                "nid001042/cpu_available": 0.025,
                "nid001042/load1": 63.97,
                "nid001042/memory_free": 1024.0,
                "nid001042/memory_available": 2048.0,
            },
        ),
        (
            "line-protocol",
            CLUSTERCOCKPIT,
            {
                "e1208/load1": 71.8,
                "e1208/counter_level>cpu_load": 71.8,
                "e1208/counter_level>flops_any_per_core": 1.2033e9,
            },
        ),
        ("ldms", LOADAVG, {"nid001042/load1": 3.0, "nid001042/cpu_available>load": 0.25}),
        ("ldms", SYSPAPI, {"nid001042/counter_delta>PAPI_TOT_INS": 36233578535.0}),
        ("collectd", COLLECTD, {"nid001042/load1": 63.97}),
        ("nws", EXTRACT, {"green.ufo.edu/cpu_available": 0.912345, "green.ufo.edu/bandwidth>blue.ufo.edu": 1e7}),
    ],
)
def test_a_record_of_a_producer_becomes_resources_of_its_host(
    format_name: str, value: bytes, expected: dict[str, float]
) -> None:
    for name in (format_name, "auto"):
        batch, index = decoded(name, value)
        assert predicted(batch, index) == expected
        assert all(not other.rejects for _, other in batch.others)
        assert [index[number].system for number in range(len(index))] == ["exa"] * len(index)


def test_a_time_is_that_of_the_record_in_any_unit() -> None:
    stamps = (b"1787217284", b"1787217284000", b"1787217284000000", b"1787217284000000000")
    batch, _ = decoded("line-protocol", *(b"system,host=a load1=1 " + stamp for stamp in stamps))
    assert batch.samples.time_ms.tolist() == [TIME_MS] * 4


def test_a_line_without_a_time_has_that_of_its_message() -> None:
    batch, _ = decoded("line-protocol", b"system,host=a load1=1")
    assert batch.samples.time_ms.tolist() == [RECEIVED_MS]


def test_what_is_not_asked_for_is_counted_and_takes_no_series() -> None:
    batch, index = decoded("line-protocol", LINES)
    assert [other.ignored for _, other in batch.others] == [{"metric": 7}]
    assert len(index) == 4


def test_cumulative_counters_pass_as_they_are_where_a_site_asks_for_them() -> None:
    options = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(resources=(*TAKEN, "cpu_idle_ticks_total")))
    batch, index = decoded("ldms", PROCSTAT, options=options)
    assert predicted(batch, index) == {"nid7/cpu_idle_ticks_total": 8123991.0}


def test_a_site_may_map_metrics_of_its_own_and_they_go_first() -> None:
    mapping = MetricMapping(measurement="rdt_metric", field="value", resource="ipc", instance="process")
    site = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(metrics=(mapping,)))
    batch, index = decoded("line-protocol", LINES, options=site)
    assert predicted(batch, index)["r2-compute-20/ipc>top"] == 0.0


def test_host_names_are_cut_at_the_domain_where_that_is_asked_for() -> None:
    options = TelemetryOptions(decode=OPTIONS.decode, taken=Telemetry(short_hosts=True))
    batch, index = decoded("line-protocol", b"system,host=a.b.c load1=1 1787217284", options=options)
    assert predicted(batch, index) == {"a/load1": 1.0}


def test_a_header_of_an_extract_names_the_columns_of_the_lines_after_it() -> None:
    lines = (b"Time Measurement Source Resource", b"1093555200 0.5 green:8060 currentCpu")
    batch, index = decoded("nws", *lines)
    assert predicted(batch, index) == {"green/cpu_current": 0.5}


def test_formats_may_be_mixed_in_one_topic_and_samples_keep_the_order_of_the_messages() -> None:
    values = (LOADAVG, TELEGRAF_CPU, b"x", LOADAVG, COLLECTD, EXTRACT)
    batch, _ = decoded("auto", *values)
    assert batch.sample_message.tolist() == [0, 0, 1, 3, 3, 4, 5, 5]
    assert np.all(np.diff(batch.sample_message) >= 0)
    assert [(at, other.rejects[0].reason) for at, other in batch.others if other.rejects] == [(2, "not-json")]


@pytest.mark.parametrize("name", ["auto", "native"])
@pytest.mark.parametrize(
    "value",
    [
        b"", b"hello", b"a b c", b"{", b"null", b"\xff\xfe{}", b'{"JobID": 1}', b'{"data": 1, "meta": 2}',
        b'{"type": "job.completed"}', b'{"type": "nothing"}', b'[{"type": "identity"}, 1]', b"[1,2", b"[" + slurm_record() + b"," + completed() + b"]", slurm_record(), completed(),
    ],
)  # fmt: skip
def test_what_is_no_telemetry_is_decoded_and_refused_as_without_it(name: str, value: bytes) -> None:
    try:
        expected = DECODERS[name](OPTIONS.decode)(value, JOBS_MS)
    except InvalidInputError as error:
        expected = Decoded(rejects=[error])
    batch = TELEMETRY[name](OPTIONS)([value], [JOBS_MS], SeriesIndex(9))
    found = [other for _, other in batch.others]
    assert [event for other in found for event in other.events] == expected.events
    refused = [(error.reason, str(error)) for other in found for error in other.rejects]
    assert refused == [(error.reason, str(error)) for error in expected.rejects]
