"""Short, stable digests: the same on every machine and in every process."""

from functools import lru_cache
from hashlib import blake2b

REMEMBERED = 8192  # the digests of one run and of its application are asked for a dozen times in a row


@lru_cache(maxsize=REMEMBERED)
def digest64(*parts: str) -> int:
    """Return 64 bits that stand for the parts.

    >>> digest64("archer2", "812") == digest64("archer2", "812") != digest64("archer28", "12")
    True
    """
    text = "\x1f".join(parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hexdigest(*parts: str) -> str:
    """Return 16 hexadecimal digits that stand for the parts, for ids and fingerprints.

    >>> len(hexdigest("StrangeRun", "archer2"))
    16
    """
    return f"{digest64(*parts):016x}"
