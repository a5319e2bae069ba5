"""The table of formats. A row has the decoders, the recognisers, the default metrics and a sample message of a format.

Sources, files, `describe formats`, metrics, tests and the fuzzer read this table.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from agent.decode.archive import Read, read_archive
from agent.decode.message import DecodeOptions, TelemetryFactory, TelemetryOptions, invalid, read_json, whole
from agent.decode.native import native_decoder
from agent.decode.opening import RecordFile, TextFile
from agent.decode.pbs import is_pbs, pbs_decoder, pbs_file
from agent.decode.sacct import sacct_decoder, sacct_file
from agent.decode.sacct_json import sacct_json_decoder
from agent.decode.slurm import slurm_decoder
from agent.decode.sonar import SONAR, sonar_decoder, sonar_samples_decoder
from agent.decode.swf import is_workload_log, swf_decoder, swf_file
from agent.decode.telemetry.collectd import COLLECTD, collectd_decoder
from agent.decode.telemetry.columns import each_message, joined
from agent.decode.telemetry.cray import cray_decoder
from agent.decode.telemetry.examon import EXAMON, examon_decoder, with_key
from agent.decode.telemetry.ldms import LDMS, ldms_decoder, ldms_names
from agent.decode.telemetry.line_protocol import is_line_protocol, line_protocol_decoder, line_protocol_file
from agent.decode.telemetry.metric import Metric
from agent.decode.telemetry.native import load_decoder
from agent.decode.telemetry.nws import NWS, is_extract, nws_decoder, nws_file
from agent.decode.telemetry.otlp import OTLP, otlp_decoder
from agent.decode.telemetry.otlp_messages import is_row_of
from agent.decode.telemetry.prometheus import PROMETHEUS, prometheus_decoder
from agent.decode.telemetry.telegraf import TELEGRAF, telegraf_decoder
from agent.decode.xalt import is_xalt, xalt_decoder, xalt_file
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decode, Decoded
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

DecoderFactory = Callable[[DecodeOptions], Decode]


ABSENT: Final = msgspec.Raw()


_KEYS: Final = (
    "type data meta errors Events Location fields metrics resourceMetrics labels tags value topic payload timestamp "
    "component_id producer schema jobid jobs userT resultT xalt_run_uuid"
)
# undecoded values of the top-level keys that tell JSON formats apart; ABSENT if a key is missing
Keys: Any = msgspec.defstruct("Keys", [(key, msgspec.Raw, ABSENT) for key in _KEYS.split()], gc=False)


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """An input format with its decoders and recognisers.

    A format has one or more decoders: for job messages (`jobs`), for telemetry samples (`samples`), for folders (`folder`). A
    decoder of samples also decodes the job messages of its format.

    `is_object` recognises a JSON object by its keys, `is_text` any other message by its first bytes, and `is_line` a file by
    its first line; `open_text` opens such a file. `keyed` merges the key of a Kafka record into its value. `avro_names` returns
    a function that converts Avro field names to the format's own names. `metrics` are the built-in mappings of the format.
    """

    reads: str
    sample: bytes = b""
    jobs: DecoderFactory | None = None
    samples: TelemetryFactory | None = None
    folder: Read | None = None
    is_object: Callable[[Any], bool] | None = None
    is_text: Callable[[bytes], bool] | None = None
    is_line: Callable[[bytes], bool] | None = None
    open_text: Callable[[TextFile, TelemetryOptions], RecordFile] | None = None
    keyed: Callable[[bytes | None, bytes | None], bytes | None] | None = None
    avro_names: Callable[[TelemetryOptions], Callable[[str], str]] | None = None
    metrics: tuple[Metric, ...] = ()


_HEAD_BYTES: Final = 4096  # number of leading bytes of a message that decide its format
_OBJECT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Keys)
_NWS_TEXT = re.compile(rb"\s*(?:#|[0-9]+(?:\.[0-9]+)?\s+[0-9.eE+-]+\s|time\s+measurement\b)", re.IGNORECASE)
# matches a measurement, a space, and a field
_LINE_PROTOCOL = re.compile(rb"[^\s,={}\[\]\"][^\n]*[^\\] [^\s=]+=[^\n]", re.DOTALL)
_EXAMON_TOPIC = re.compile(rb"[^\s\"{}\[\]]{0,256}\borg/[^\s/]+/cluster/\S+ +\S")  # an MQTT topic, then the payload


FORMATS: Final[Mapping[str, Format]] = {  # formats are tried in this order, so the most frequent come first
    "native": Format(
        reads="Scalewatch's own events: jobs, identities, load, counters, power and states of hosts.",
        sample=b'{"type":"load","system":"exa","host":"nid1","resource":"load1","time":"2026-11-20T10:00:00Z","value":1}',
        jobs=native_decoder,
        samples=load_decoder,
        is_object=lambda keys: keys.type is not ABSENT,
    ),
    "slurm": Format(
        reads="Records of Slurm's jobcomp/kafka plugin: finished jobs, and started ones since 26.05.",
        sample=b'{"jobid":812,"username":"mary","@start":"2026-11-20T10:00:00","@end":"2026-11-20T11:00:00","elapsed":3600,'
        b'"partition":"batch","nodes":"nid[1-4]","total_cpus":256,"total_nodes":4,"exit_code":"0:0","state":"COMPLETED",'
        b'"cluster":"exa","job_name":"lammps","time_limit":7200}',
        jobs=slurm_decoder,
        is_object=lambda keys: keys.jobid is not ABSENT and keys.timestamp is ABSENT,  # an LDMS row has both keys
    ),
    "sacct-json": Format(
        reads="Jobs in JSON of sacct --json, squeue --json, scontrol show jobs --json and slurmrestd.",
        sample=b'{"jobs":[{"job_id":812,"cluster":"exa","name":"lammps","user":"mary","state":{"current":["COMPLETED"]},"time":{"start":1795168800,'
        b'"end":1795172400,"elapsed":3600,"limit":{"set":true,"infinite":false,"number":120}},"allocation_nodes":4,"nodes":"nid[1-4]"}],"meta":{}}',
        jobs=sacct_json_decoder,
        is_object=lambda keys: bytes(keys.jobs)[:1] == b"[",
    ),
    "sonar": Format(
        reads="Sonar's messages: finished jobs of Slurm, and samples of nodes and their programs.",
        sample=b'{"meta":{},"data":{"type":"sample","attributes":{"time":"2026-11-20T10:00:00Z","cluster":"exa","node":"nid1",'
        b'"system":{"load1":1.5,"existing_entities":9,"gpus":[{"power":300}]}}}}',
        jobs=sonar_decoder,
        samples=sonar_samples_decoder,
        is_object=lambda keys: keys.meta is not ABSENT and (keys.data is not ABSENT or keys.errors is not ABSENT),
        metrics=SONAR,
    ),
    "cray": Format(
        reads="Telemetry of Cray EX: Redfish events with readings of sensors, as its collector forwards them.",
        sample=b'{"Context":"x9c3s0b0","Events":[{"EventTimestamp":"2026-11-20T10:00:00Z","MessageId":"CrayTelemetry.Power","Oem":'
        b'{"Sensors":[{"Timestamp":"2026-11-20T10:00:00.951742109Z","Location":"x9c3s0b0n0","PhysicalContext":"Chassis","Value":"473.5"}]}}]}',
        samples=cray_decoder,
        is_object=lambda keys: (
            keys.Events is not ABSENT or keys.Location is not ABSENT or bytes(keys.metrics)[:1] == b"{"
        ),
    ),
    "otlp": Format(
        reads="OpenTelemetry's metrics (OTLP) in protobuf or JSON.",
        sample=b'{"resourceMetrics":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"nid1"}}]},"scopeMetrics":[{"metrics":'
        b'[{"name":"system.cpu.load_average.1m","gauge":{"dataPoints":[{"timeUnixNano":"1795168800000000000","asDouble":1.5}]}}]}]}]}',
        samples=otlp_decoder,
        is_object=lambda keys: keys.resourceMetrics is not ABSENT,
        metrics=OTLP,
    ),
    "telegraf": Format(
        reads="Telegraf's JSON, with times in s, ms, us or ns.",
        sample=b'{"fields":{"load1":1.5},"name":"system","tags":{"host":"nid1"},"timestamp":1795168800}',
        samples=telegraf_decoder,
        is_object=lambda keys: keys.metrics is not ABSENT or keys.fields is not ABSENT,
        metrics=TELEGRAF,
    ),
    "prometheus": Format(
        reads="Samples of Prometheus as its Kafka adapters write them in JSON.",
        sample=b'{"labels":{"__name__":"node_load1","instance":"nid1:9100","job":"node"},"name":"node_load1",'
        b'"timestamp":"2026-11-20T10:00:00Z","value":"1.5"}',
        samples=prometheus_decoder,
        is_object=lambda keys: bytes(keys.labels)[:1] == b"{" and keys.value is not ABSENT,
        metrics=PROMETHEUS,
    ),
    "examon": Format(
        reads="ExaMon's metrics: a topic of MQTT with value and time, in the message or in the record's key.",
        sample=b"org/e4/cluster/exa/node/nid1/plugin/ganglia_pub/chnl/data/load_one 1.5;1795168800.000",
        samples=examon_decoder,
        is_object=lambda keys: (
            (bytes(keys.tags)[:1] == b"{" and keys.value is not ABSENT and keys.timestamp is not ABSENT)
            or (bytes(keys.topic)[:1] == b'"' and keys.payload is not ABSENT)
        ),
        is_text=lambda head: _EXAMON_TOPIC.match(head) is not None,
        keyed=with_key,
        metrics=EXAMON,
    ),
    "ldms": Format(
        reads="Rows of LDMS in JSON or Avro, and the messages of its slurm_notifier.",
        sample=b'{"timestamp":1795168800.5,"component_id":1,"load1min":1.5,"MemFree":7}',
        samples=ldms_decoder,
        is_object=lambda keys: (
            keys.timestamp is not ABSENT
            and (keys.component_id is not ABSENT or keys.producer is not ABSENT or bytes(keys.schema)[:7] == b'"slurm_')
        ),
        avro_names=ldms_names,
        metrics=LDMS,
    ),
    "xalt": Format(
        reads="XALT's records of programs that jobs run, in JSON or as lines of syslog.",
        sample=b'{"userT":{"syshost":"exa","job_id":"812","exec_path":"/apps/gromacs/2024.2/bin/gmx_mpi"},'
        b'"envT":{"LOADEDMODULES":"gcc/13.2:gromacs/2024.2"},"userDT":{"run_time":60.0,"num_tasks":64},"xaltLinkT":{}}',
        jobs=xalt_decoder,
        is_text=is_xalt,
        open_text=xalt_file,
        is_object=lambda keys: (
            keys.userT is not ABSENT or keys.resultT is not ABSENT or keys.xalt_run_uuid is not ABSENT
        ),
    ),
    "collectd": Format(
        reads="Value lists of collectd in JSON.",
        sample=b'[{"values":[1.5],"dsnames":["shortterm"],"time":1795168800.5,"host":"nid1","plugin":"load","type":"load"}]',
        samples=collectd_decoder,
        is_text=lambda head: head[:1] == b"[" and b'"dsnames"' in head and b'"plugin"' in head,
        metrics=COLLECTD,
    ),
    "pbs": Format(
        reads="Accounting records of PBS Professional, OpenPBS and Torque: the ends of runs (E, R).",
        sample=b"11/20/2026 11:00:00;E;812.master;user=mary group=chem jobname=lammps queue=batch start=1795168800 "
        b"exec_host=nid1/0*8+nid2/0*8 Resource_List.walltime=04:00:00 end=1795172400 Exit_status=0 resources_used.walltime=01:00:00",
        jobs=pbs_decoder,
        is_text=is_pbs,
        open_text=pbs_file,
    ),
    "swf": Format(
        reads="Logs in the Standard Workload Format of the Parallel Workloads Archive.",
        sample=b"; UnixStartTime: 1795168800\n; Computer: exa\n1 0 60 3600 16 -1 -1 16 7200 -1 1 1 1 -1 -1 -1 -1 -1",
        jobs=swf_decoder,
        is_line=is_workload_log,
        open_text=swf_file,
    ),
    "nws": Format(
        reads="Text of nws_extract, of the Network Weather Service.",
        sample=b"1795168800 0.5 0.5 0.1 0.5 0.1 nid1:8060 nid1:8060 availableCpu",
        samples=nws_decoder,
        is_text=lambda head: _NWS_TEXT.match(head) is not None,
        is_line=is_extract,
        open_text=nws_file,
        metrics=NWS,
    ),
    "line-protocol": Format(
        reads="Line protocol of InfluxDB, as Telegraf and cc-metric-collector write it.",
        sample=b'system,host=nid1 load1=1.5,users=3i,note="a \\"b" 1795168800000000000',
        samples=line_protocol_decoder,
        is_text=lambda head: _LINE_PROTOCOL.match(head) is not None,
        is_line=is_line_protocol,
        open_text=line_protocol_file,
        metrics=TELEGRAF,
    ),
    "sacct": Format(
        reads="Tables of sacct --parsable2 with any columns, Sonar's fixed columns, and lines of key=value pairs.",
        sample=b"JobID|JobName|User|State|Start|End|NNodes\n812|lammps|mary|COMPLETED|2026-11-20T10:00:00|2026-11-20T11:00:00|4",
        jobs=sacct_decoder,
        open_text=sacct_file,
    ),
    "clustercockpit": Format(
        reads="Folders of ClusterCockpit's job archive: jobs with what their hosts measured.", folder=read_archive
    ),
}


def recognised(value: bytes) -> str | None:
    """Return the name of the format of a message; None if the format is unknown."""
    if is_row_of(1, value):  # a protobuf message begins with a line feed, as a text may too
        return "otlp"
    head = value[:_HEAD_BYTES].lstrip()
    if head[:1] == b"{":
        try:
            return _of_object(value.rstrip(b"\0"))
        except InvalidInputError:
            return None
    if head[:1] == b"\0":
        return None
    return next((name for name, form in FORMATS.items() if form.is_text and form.is_text(head)), None)


def _of_object(value: bytes) -> str | None:
    keys = read_json(_OBJECT, value)
    return next((name for name, form in FORMATS.items() if form.is_object and form.is_object(keys)), None)


def any_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder for JSON job messages of any format; an array may mix formats.

    >>> decode = any_decoder(DecodeOptions())
    >>> decode(b'[{"type": "load"}, {"JobID": 1}]', 0).rejects[1].reason
    'unknown-format'
    """
    decoders: dict[str, Decode] = {}  # created on demand, because most topics and files hold one format

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        name = (recognised(value) if value[:1].isalnum() else None) or _of_object(value)
        if name not in decoders:
            make = None if name is None else FORMATS[name].jobs
            if name is None or make is None:
                detail = "The message has neither the type of a native event, nor the keys of Slurm, Sonar or XALT."
                raise invalid("unknown-format", detail)
            decoders[name] = make(options)
        decoded.add(decoders[name](value, received_ms))

    return whole(decode_one, options)


def any_samples_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder for slices of messages that mix formats; samples keep the order of the messages.

    >>> decode = any_samples_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> decode([b"system,host=nid1 load1=3.5 1787217284"], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [3.5]
    """
    # decodes native events, and refuses messages of unknown formats
    rest = load_decoder(options, any_decoder(options.decode))
    decoders: dict[str | None, DecodeSamples] = {
        name: form.samples(options) for name, form in FORMATS.items() if form.samples and name != "native"
    }
    decoders |= {
        name: each_message(form.jobs(options.decode))
        for name, form in FORMATS.items()
        if form.jobs and form.is_text and name not in decoders
    }

    def decode(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        places: dict[str | None, list[int]] = {}
        for message, value in enumerate(values):
            # most native events begin with this key; a search for all keys costs more than the decoding of a sample
            name = None if value and value.startswith(b'{"type"') else recognised(value or b"")
            places.setdefault(name if name in decoders else None, []).append(message)
        batches = [
            (at, decoders.get(name, rest)([values[i] for i in at], [received_ms[i] for i in at], index))
            for name, at in places.items()
        ]
        return joined(batches)

    return decode


DECODERS: Final[Mapping[str, DecoderFactory]] = {"auto": any_decoder} | {
    name: form.jobs for name, form in FORMATS.items() if form.jobs is not None
}
"""Decoder factories for job messages, by format; `auto` recognises the format of each message."""

TELEMETRY: Final[Mapping[str, TelemetryFactory]] = {"auto": any_samples_decoder} | {
    name: form.samples for name, form in FORMATS.items() if form.samples is not None
}
"""Decoder factories for telemetry, by format; `auto` recognises the format of each message."""
