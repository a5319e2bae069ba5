"""Short, stable digests: the same on every machine and in every process."""

import struct
from hashlib import blake2b


def digest64(*parts: str) -> int:
    """Return 64 bits that stand for the parts.

    >>> digest64("archer2", "812") == digest64("archer2", "812") != digest64("archer28", "12")
    True
    """
    text = "\x1f".join(parts)
    return int(struct.unpack("<Q", blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())[0])


def hexdigest(*parts: str) -> str:
    """Return 16 hexadecimal digits that stand for the parts, for ids and fingerprints.

    >>> len(hexdigest("RunOutsideBand", "archer2"))
    16
    """
    return f"{digest64(*parts):016x}"
