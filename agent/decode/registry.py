"""The formats of messages, by the names that the configuration uses."""

from collections.abc import Callable
from typing import Final

from agent.contracts.decoding import Decode
from agent.decode.native import native_decoder
from agent.decode.options import DecodeOptions
from agent.decode.sacct import sacct_decoder
from agent.decode.slurm import slurm_decoder
from agent.decode.sniff import any_decoder
from agent.decode.sonar import sonar_decoder
from agent.decode.swf import swf_decoder

DecoderFactory = Callable[[DecodeOptions], Decode]

DECODERS: Final[dict[str, DecoderFactory]] = {
    "auto": any_decoder,
    "native": native_decoder,
    "slurm": slurm_decoder,
    "sonar": sonar_decoder,
    "sacct": sacct_decoder,
    "swf": swf_decoder,
}
