"""The backstop: whatever a decoder raises costs the message at fault, and nothing else."""

from collections.abc import Sequence

import pytest

from agent.decode.guard import guarded, guarded_samples
from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.native import native_decoder
from agent.decode.sonar import sonar_samples_decoder
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import Decoded, Identity
from processors.contracts.telemetry import DecodedBatch, DecodeSamples, SeriesIndex

BAD = b"the one that breaks it"
SAMPLE = (
    b'{"meta":{},"data":{"type":"sample","attributes":{"time":"2026-11-20T10:00:00Z","cluster":"exa","node":"%s",'
    b'"system":{"load1":1.5,"existing_entities":9},"jobs":[{"job":%d,"processes":[{"cmd":"lmp","cpu_time":3}]}]}}}'
)


def breaking() -> DecodeSamples:
    """Return the decoder of Sonar's samples with a defect: it raises at one message, after it took those before."""
    decode = sonar_samples_decoder(TelemetryOptions())

    def broken(values: Sequence[bytes | None], received_ms: Sequence[int], index: SeriesIndex) -> DecodedBatch:
        batch = decode([value for value in values if value != BAD], received_ms, index)
        if BAD in values:
            raise OverflowError("int too large to convert to float")
        return batch

    return broken


def test_a_slice_that_breaks_a_decoder_costs_the_one_message_at_fault() -> None:
    values = [SAMPLE % (b"nid1", 1), BAD, SAMPLE % (b"nid2", 2), SAMPLE % (b"nid1", 1)]
    index = SeriesIndex(9)
    batch = guarded_samples(breaking)(values, [0] * 4, index)
    loads = [
        (message, index[number].host)
        for message, number in zip(batch.sample_message.tolist(), batch.samples.series.tolist(), strict=True)
        if index[number].resource == "load1"
    ]
    assert loads == [(0, "nid1"), (2, "nid2"), (3, "nid1")]
    ((at, reason),) = [(at, error.reason) for at, other in batch.others for error in other.rejects]
    assert (at, reason) == (1, "decoder")


def test_what_was_found_in_the_slice_before_it_broke_is_reported_all_the_same() -> None:
    batch = guarded_samples(breaking)([SAMPLE % (b"nid1", 1), BAD, SAMPLE % (b"nid2", 2)], [0] * 3, SeriesIndex(9))
    programs = [event.job_id for _, other in batch.others for event in other.events if isinstance(event, Identity)]
    assert programs == ["1", "2"]


def test_a_message_that_breaks_a_decoder_of_jobs_is_refused_with_what_it_raised() -> None:
    def broken(value: bytes, received_ms: int) -> Decoded:
        raise KeyError(value.decode(errors="surrogateescape"))

    with pytest.raises(InvalidInputError) as caught:
        guarded(broken)(b"\xff", 0)
    assert caught.value.reason == "decoder"
    assert str(caught.value).isascii()


def test_what_a_decoder_refuses_stays_as_it_is() -> None:
    with pytest.raises(InvalidInputError) as caught:
        guarded(native_decoder(DecodeOptions()))(b"{", 0)
    assert caught.value.reason == "not-json"


def test_a_wrong_configuration_still_stops_it() -> None:
    def misconfigured(value: bytes, received_ms: int) -> Decoded:
        raise ConfigError("There is no such zone.")

    with pytest.raises(ConfigError):
        guarded(misconfigured)(b"{}", 0)
