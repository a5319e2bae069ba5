"""Limits that every log keeps, so that what works on one works on the other."""

RECORD_BYTES_MAX = 1_000_000  # a broker refuses batches over 1,048,588 bytes unless told otherwise
RECORD_OVERHEAD_BYTES = 100  # generous: a record's own fields are some 20 bytes


def check_record(topic: str, value: bytes | None, key: bytes | None) -> int:
    """Return the size of a record in bytes; ValueError where a broker would never take it.

    >>> check_record("raw", b"value", b"key")
    108
    """
    size_bytes = len(value or b"") + len(key or b"") + RECORD_OVERHEAD_BYTES
    if size_bytes > RECORD_BYTES_MAX:
        raise ValueError(f"A record of {size_bytes} bytes for {topic} is larger than a broker takes.")
    return size_bytes
