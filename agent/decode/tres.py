"""Slurm's trackable resources (TRES): what was allocated, as text."""

from typing import Final

_NO_VALUE: Final = 2**63  # Slurm writes 2^64 - 2 and its like for "no value"
_NAMES: Final = {"1": "cpu", "2": "mem", "3": "energy", "4": "node", "5": "billing"}
_UNITS: Final = {"K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4, "P": 1024.0**5}


GPU: Final = "gres/gpu"


def parse_tres(text: str | None, prefix: str = "") -> dict[str, float]:
    """Return resource name to amount, of ``cpu=512,mem=1920G,gres/gpu=16`` or of the raw form ``1=512,2=1966080``.

    A suffix K, M, ... multiplies by powers of 1024. What is no amount, or stands for "no value", is left out, and so
    is what does not begin with `prefix`.

    >>> parse_tres("cpu=512,node=4,gres/gpu:a100=16")
    {'cpu': 512.0, 'node': 4.0, 'gres/gpu:a100': 16.0}
    >>> parse_tres("1=2,3=18446744073709551614")
    {'cpu': 2.0}
    """
    resources = {}
    for item in (text or "").split(","):
        if not item.startswith(prefix):
            continue
        name, _, amount = item.partition("=")
        value = _amount(amount)
        if name and value is not None:
            resources[_NAMES.get(name, name)] = value
    return resources


def gpus(resources: dict[str, float]) -> float:
    """Return the number of GPUs: the total where there is one, else the sum over their types.

    >>> gpus(parse_tres("gres/gpu:a100=1,gres/gpu=1")), gpus(parse_tres("gres/gpu:a100=1,gres/gpu:h100=2"))
    (1.0, 3.0)
    """
    if GPU in resources:
        return resources[GPU]
    return sum((value for name, value in resources.items() if name.startswith(f"{GPU}:")), 0.0)


def _amount(text: str) -> float | None:
    if len(text) > 32 or not text.isascii():
        return None
    if text.isdigit():
        count = int(text)
        return float(count) if count < _NO_VALUE else None
    factor = _UNITS.get(text[-1:], 1.0)
    digits = text[:-1] if text[-1:] in _UNITS else text
    if not digits.replace(".", "", 1).isdigit():
        return None
    value = float(digits) * factor
    return value if value < _NO_VALUE else None
