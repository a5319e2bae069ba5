"""The formats of messages, by the names that the configuration uses: job events, and telemetry."""

from collections.abc import Callable
from typing import Final

from agent.contracts.decoding import Decode
from agent.decode.archive import Read, read_archive
from agent.decode.clustercockpit import FORMAT
from agent.decode.native import native_decoder
from agent.decode.options import DecodeOptions
from agent.decode.sacct import sacct_decoder
from agent.decode.slurm import slurm_decoder
from agent.decode.sniff import any_decoder
from agent.decode.sonar import sonar_decoder
from agent.decode.swf import swf_decoder
from agent.decode.telemetry.options import TelemetryFactory
from agent.decode.telemetry.sniff import FORMATS, any_telemetry_decoder

DecoderFactory = Callable[[DecodeOptions], Decode]

DECODERS: Final[dict[str, DecoderFactory]] = {
    "auto": any_decoder,
    "native": native_decoder,
    "slurm": slurm_decoder,
    "sonar": sonar_decoder,
    "sacct": sacct_decoder,
    "swf": swf_decoder,
}

TELEMETRY: Final[dict[str, TelemetryFactory]] = {"auto": any_telemetry_decoder, **FORMATS}
"""Decoders of slices of messages into columns of samples; ``native`` takes events of jobs in the same topic too."""

ARCHIVES: Final[dict[str, Read]] = {FORMAT: read_archive}
"""Readers of folders, which stand where files may stand."""
