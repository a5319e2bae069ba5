"""Records of XALT name what a job runs: by the largest of its runs, over each of its transports."""

import json
from typing import Any

import pytest

from agent.decode import xalt
from agent.decode.formats import DECODERS
from agent.decode.message import DecodeOptions
from agent.decode.xalt import xalt_decoder
from agent.identify import Identifier
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Decoded, Evidence, Identity
from processors.contracts.settings import IdentifySettings

HASH = "f1f2510ce9007728218ba39a63fcd5209defb5ca"


def run(
    path: str = "/apps/lammps/23Jun2022/bin/lmp", tasks: float = 64, run_s: float = 0, **fields: Any
) -> dict[str, Any]:
    user = {"syshost": "exa", "exec_path": path, "job_id": "812", "user": "alice", "cwd": "/scratch/alice"}
    return {
        "crc": "0xB68A",
        "hash_id": HASH,
        "envT": {"LOADEDMODULES": fields.pop("modules", "")},
        "userT": {**user, **fields},
        "userDT": {"run_time": run_s, "num_tasks": tasks},
        "xaltLinkT": {},
    }  # fmt: skip


def encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


class Decoder:
    """One decoder and what it told."""

    def __init__(self, **options: Any) -> None:
        self._decode = xalt_decoder(DecodeOptions(**options))

    def decoded(self, value: bytes | dict[str, Any]) -> Decoded:
        return self._decode(value if isinstance(value, bytes) else encoded(value), 0)

    def identities(self, *records: bytes | dict[str, Any]) -> list[Identity]:
        found = [event for record in records for event in self.decoded(record).events]
        assert all(isinstance(event, Identity) for event in found)
        return found  # type: ignore[return-value]  # as was looked

    def executables(self, *records: bytes | dict[str, Any]) -> list[str | None]:
        return [identity.evidence.executable for identity in self.identities(*records)]


def test_the_program_that_a_job_runs_names_its_application() -> None:
    (identity,) = Decoder().identities(run())
    assert (identity.system, identity.job_id, identity.source) == ("exa", "812", "xalt")
    named = Identifier(IdentifySettings()).identify(Evidence(job_name="run7"), "exa", [identity])
    assert (named.application, named.source) == ("lmp", "executable from xalt")


def test_builds_differ_by_their_hash_and_what_is_no_hash_is_left_out() -> None:
    linked = {**run(), "xaltLinkT": {"Build_compiler": "gcc", "Build_CWD": "/home/alice"}}
    assert Decoder().identities(linked)[0].evidence.attributes == {"build": HASH, "compiler": "gcc"}
    assert Decoder().identities({**run(), "hash_id": "unknown"})[0].evidence.attributes == {}


@pytest.mark.parametrize(
    ("modules", "module"),
    [
        ("gcc/13:lammps/23Jun2022", "lammps/23Jun2022"),
        ("gcc/13:openmpi/5", "gcc/13:openmpi/5"),
        ("lammps", "lammps"),
        ("", None),
    ],
)
def test_the_module_is_the_one_that_the_path_holds_or_all(modules: str, module: str | None) -> None:
    assert Decoder().identities(run(modules=modules))[0].evidence.module == module


def test_the_largest_run_of_a_job_counts_whenever_it_comes() -> None:
    helper, script = run("/home/alice/prepare", tasks=1, run_s=3), run("/home/alice/post", tasks=1, run_s=30)
    begun, ended = run(), run(run_s=1800)
    assert Decoder().executables(helper, begun, script, ended, script) == [
        "/home/alice/prepare", begun["userT"]["exec_path"], begun["userT"]["exec_path"],
    ]  # fmt: skip
    assert Decoder().executables(begun, run("/home/alice/prepare", job_id="813", tasks=1, run_s=3)) == [
        begun["userT"]["exec_path"], "/home/alice/prepare",
    ]  # fmt: skip


def test_a_record_that_is_read_again_yields_its_identity_again() -> None:
    decoder = Decoder()
    assert decoder.identities(run(run_s=9)) == decoder.identities(run(run_s=9)) != []


def test_the_oldest_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xalt, "JOBS_MAX", 2)
    decoder = Decoder()
    for job_id in ("1", "2", "3"):
        assert len(decoder.identities(run(run_s=1800, job_id=job_id))) == 1
    assert len(decoder.identities(run(tasks=1, run_s=1, job_id="1"))) == 1
    assert len(decoder.identities(run(tasks=1, run_s=1, job_id="3"))) == 0


LINE = b"Aug 20 09:12:47 nid1 XALT_LOGGING_exa: V:3 kind:run idx:0 nb:%d syshost:exa key:run_strt_0191 value:%s"
LOGGER = b"V:3 kind:run nb:1 syshost:exa key:run_fini_0191 idx:0 value:%s"


@pytest.mark.parametrize(
    "message",
    [
        encoded(run()),
        encoded(run()) + b"\n\0",
        LINE % (1, encoded(run())),
        LOGGER % encoded(run()),
        b"Aug 20 09:12:47 nid1 XALT_LOGGING_exa: run:" + encoded(run()),
        b"run:" + encoded(run()),
    ],
)
def test_a_record_is_read_over_each_transport(message: bytes) -> None:
    assert Decoder().identities(message) == Decoder().identities(run())


def test_a_record_in_several_lines_of_syslog_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidInputError, match=r"was cut into 3 lines of syslog; send it whole\.") as refused:
        Decoder().decoded(LINE % (3, b'{"crc"'))
    assert refused.value.reason == "unsupported-type"


@pytest.mark.parametrize(
    ("record", "ignored"),
    [
        (run(job_id="unknown"), "no-job"),
        (run(job_id=""), "no-job"),
        ({"linkA": [], "resultT": {"uuid": "b0a4"}}, "link"),
        ({"package_name": "bar", "xalt_run_uuid": "1a8b"}, "package"),
    ],
)
def test_what_is_of_no_job_is_counted(record: dict[str, Any], ignored: str) -> None:
    for decode in (xalt_decoder(DecodeOptions()), DECODERS["auto"](DecodeOptions())):
        decoded = decode(encoded(record), 0)
        assert (decoded.events, decoded.ignored) == ([], {ignored: 1})


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (run(path=""), "missing-field"),
        (run(job_id="9" * 300), "text"),
        (run(syshost=""), "system"),
        ({"crc": "0xB68A"}, "unknown-format"),
        ({"userT": 7}, "wrong-type"),
        ({**run(), "userDT": {"num_tasks": -1}}, "out-of-range"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Decoder().decoded(record)
    assert refused.value.reason == reason


def test_text_that_is_no_record_is_refused() -> None:
    for value in (
        b"hello",
        b"V:3 kind:run idx:0 syshost:exa",
        LINE.replace(b" nb:%d", b"") % encoded(run()),
        b"run:",
        b"{",
    ):
        with pytest.raises(InvalidInputError):
            Decoder().decoded(value)


def test_the_system_is_that_of_the_source_whatever_xalt_calls_it() -> None:
    for syshost in ("", "login1"):
        assert Decoder(default_system="saga").identities(run(syshost=syshost))[0].system == "saga"
    assert Decoder().identities(run())[0].system == "exa"


def test_where_formats_are_mixed_it_is_recognised() -> None:
    decoded = DECODERS["auto"](DecodeOptions())(b"[" + encoded(run()) + b"," + encoded(run(job_id="9")) + b"]", 0)
    assert [event.system for event in decoded.events] == ["exa", "exa"]
