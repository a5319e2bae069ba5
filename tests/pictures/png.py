"""Small PNG files: a page has few colours, so that 256 of them are as good as all."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

COLOURS = 256
FREQUENT = (
    128  # of these; the others are those that are least like any that is taken, so that a small red ring stays red
)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
Pixels = NDArray[np.uint8]


def smaller(png: bytes) -> bytes:
    """Return a picture of 8 bits a channel (RGB or RGBA) with the colours it has most, others as the nearest of these."""
    pixels = read(png)
    height, width, _ = pixels.shape
    packed = pixels.astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
    found, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16 & 255, found >> 8 & 255, found & 255], axis=1).astype(np.int32)
    palette = _palette(colours[np.argsort(-counts, kind="stable")])
    nearest = np.concatenate(
        [((part[:, None, :] - palette[None]) ** 2).sum(axis=2).argmin(axis=1) for part in np.array_split(colours, 64)]
    )
    rows = nearest[inverse].reshape(height, width).astype(np.uint8)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", body), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _palette(colours: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return at most 256 of these colours, which come most frequent first."""
    taken = list(colours[:FREQUENT])
    away = np.min([((colours - colour) ** 2).sum(axis=1) for colour in taken], axis=0)
    while len(taken) < min(COLOURS, len(colours)):
        taken.append(colours[int(away.argmax())])
        away = np.minimum(away, ((colours - taken[-1]) ** 2).sum(axis=1))
    return np.stack(taken)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read(png: bytes) -> Pixels:
    """Return the pixels of a picture, height by width by red, green and blue."""
    place, body = len(_SIGNATURE), b""
    width = height = channels = 0
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", data)
            channels = {2: 3, 6: 4}[colour]
        body += data if kind == b"IDAT" else b""
        place += length + 12
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    rows = np.zeros((height, width * channels), np.uint8)
    above = np.zeros(width * channels, np.uint8)
    for number, line in enumerate(lines):
        above = rows[number] = _unfiltered(int(line[0]), line[1:], above, channels)
    return rows.reshape(height, width, channels)[:, :, :3]


def _unfiltered(kind: int, line: Pixels, above: Pixels, step: int) -> Pixels:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        return np.cumsum(line.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)
    out = np.zeros(len(line) + step, np.int32)
    up = np.concatenate([np.zeros(step, np.int32), above.astype(np.int32)])
    for place in range(step, len(out)):
        left, over, corner = int(out[place - step]), int(up[place]), int(up[place - step])
        reported = (left + over) // 2 if kind == 3 else _paeth(left, over, corner)
        out[place] = (int(line[place - step]) + reported) & 255
    return out[step:].astype(np.uint8)


def _paeth(left: int, over: int, corner: int) -> int:
    guess = left + over - corner
    return min((abs(guess - left), 0, left), (abs(guess - over), 1, over), (abs(guess - corner), 2, corner))[2]
