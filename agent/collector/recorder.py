"""The flight recorder of a role: the position of the records being read, in memory that outlives the process.

Before a role reads records it writes their position here, and removes the position after reading. If the process dies in
between, in whatever way, its parent finds the position, and the next process is careful with these records. The role
also counts its beats here, so the parent notices a loop that hangs although the interpreter of the role is locked.

Marking a slice costs 8 µs, marking a record of the journal 2 µs.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Final, Self, TypeVar

import msgspec

from processors.contracts.errors import DECODER, InvalidInputError, ScalewatchError
from processors.contracts.events import Decoded
from processors.contracts.log import Batch, TopicPartition

RECORDER_FD: Final = "SCALEWATCH_RECORDER_FD"
FOLDER: Final = "RUNTIME_DIRECTORY"  # set by systemd; the container image has a folder that outlives the container
ATTEMPTS_MAX: Final = 16
_BEATS, _READS, _ATTEMPTS, _END = 0, 512, 1024, 8192  # byte offsets of the parts of the file
_LENGTH_BYTES: Final = 4
Content = TypeVar("Content")


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt to read the records with the offsets `first` to `last`; it has failed if the process died during the attempt.

    `ends` is the number of processes that died during the attempt. `alone` is the evidence that a single record is the cause: 2
    for each death that no operator can have caused, 1 for each other death, and 0 if the attempt covers several records.
    `written_ms` is the timestamp of the first record; if it differs, the topic was created anew and the offset belongs to
    another record.
    """

    topic: str
    partition: int
    first: int
    last: int
    written_ms: int = 0
    ends: int = 0
    alone: int = 0

    @property
    def hopeless(self) -> bool:
        """Whether to give up a single record: at least two processes died, and the evidence `alone` is at least 2."""
        return self.ends >= 2 and self.alone >= 2

    def ended(self, *, certain: bool) -> "Attempt":
        """Return the attempt after one more death; `certain` means that no operator can have killed the process."""
        alone = 0 if self.first < self.last else 2 if certain else 1
        return msgspec.structs.replace(self, ends=self.ends + 1, alone=self.alone + alone)

    def __str__(self) -> str:
        last = f" to {self.last}" if self.first < self.last else ""
        return f"{self.topic}/{self.partition}/{self.first}{last}"


class Recorder:
    """Shared memory in which one role counts its loop passes (beats) and marks the records being read; it outlives the process.

    Only the thread that created the recorder counts beats, because other threads keep running while the loop hangs. `on_beat`
    is called at each beat; its argument says whether records are being read. With a `descriptor` of -1 the memory ends with the
    process.
    """

    def __init__(self, descriptor: int = -1) -> None:
        self.descriptor, self._memory = descriptor, mmap.mmap(descriptor, _END)
        self.on_beat: Callable[[bool], object] = bool
        self._owner, self._beats = get_ident(), 0

    @classmethod
    def made(cls, role: str) -> Self:
        """Return the recorder of a role: a file in RUNTIME_DIRECTORY if that variable is set, else anonymous memory."""
        descriptor = os.memfd_create("scalewatch-recorder")
        if folder := os.environ.get(FOLDER):
            with suppress(OSError):  # without a writable folder, only a restart of the whole agent forgets the attempts
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(Path(folder, f"scalewatch-{role}"), flags, 0o600)
        os.ftruncate(descriptor, _END)
        return cls(descriptor)

    @classmethod
    def inherited(cls) -> Self | None:
        """Return the recorder that the parent process created for this role; None if no parent passed one."""
        number = os.environ.pop(RECORDER_FD, None)
        if number is None:
            return None
        os.set_inheritable(int(number), False)  # noqa: FBT003 - a function of C
        return cls(int(number))

    def beat(self) -> None:
        """Count one pass of the loop. Call this method before each step, and before each wait for the broker."""
        self._beat(reading=False)

    @contextmanager
    def reading(self, attempt: Attempt) -> Iterator[None]:
        """Mark the records of `attempt` as being read for the duration of a block.

        The mark is removed at the end and after a ScalewatchError; it stays after any other error, which usually ends the
        process.
        """
        self.begin(attempt)
        try:
            yield
        except ScalewatchError:
            self.end()
            raise
        self.end()

    def begin(self, attempt: Attempt) -> None:
        """Mark the records of `attempt` as being read, until the next call of `end` or `begin`."""
        self._beat(reading=True)
        self._write(_READS, attempt)

    def end(self) -> None:
        """Remove the mark of the records being read."""
        self._memory[_READS : _READS + _LENGTH_BYTES] = bytes(_LENGTH_BYTES)
        self._beat(reading=False)

    def beats(self) -> int:
        """Return the number of beats since the process started."""
        return int.from_bytes(self._memory[_BEATS : _BEATS + 8], "little")

    def reads(self) -> Attempt | None:
        """Return the read attempt that is going on, or that the previous process died in; None if no process was reading."""
        return self._read(_READS, Attempt)

    def attempts(self) -> list[Attempt]:
        """Return the failed attempts, newest first."""
        return self._read(_ATTEMPTS, list[Attempt]) or []

    def settle(self, *, certain: bool = False) -> Attempt | None:
        """Add the read during which the previous process died to the failed attempts and return it; None if no read ran.

        Beats and mark are reset for the next process. `certain` means that no operator can have killed the previous process.
        """
        reads = self.reads()
        attempt = None if reads is None else reads.ended(certain=certain)
        if attempt is not None:
            others = [former for former in self.attempts() if str(former) != str(attempt)]
            self._write(_ATTEMPTS, [attempt, *others][:ATTEMPTS_MAX])
        self._memory[_BEATS:_ATTEMPTS] = bytes(_ATTEMPTS)
        return attempt

    def _beat(self, *, reading: bool) -> None:
        if get_ident() == self._owner:
            self._beats += 1
            self._memory[_BEATS : _BEATS + 8] = self._beats.to_bytes(8, "little")
            self.on_beat(reading)

    def _write(self, start: int, content: object) -> None:
        """Write `content` first and its length last, so that a process that is killed meanwhile leaves no partial content."""
        encoded, text = msgspec.json.encode(content), start + _LENGTH_BYTES
        self._memory[start:text] = bytes(_LENGTH_BYTES)
        self._memory[text : text + len(encoded)] = encoded
        self._memory[start:text] = len(encoded).to_bytes(_LENGTH_BYTES, "little")

    def _read(self, start: int, kind: type[Content]) -> Content | None:
        text = start + _LENGTH_BYTES
        length = int.from_bytes(self._memory[start:text], "little")
        try:
            return msgspec.json.decode(self._memory[text : text + length], type=kind) if length else None
        except msgspec.DecodeError:  # the file was written by another version, or is damaged
            return None


KEEP_MAX: Final = 4  # attempts in the metadata of a committed offset, for which a broker allows 4,096 bytes
_MARK: Final = " attempts:"


class Attempts:
    """The failed attempts to read one partition. A collector commits them with the offset, so that the next collector knows them."""

    def __init__(self, partition: TopicPartition, metadata: str, attempts: Iterable[Attempt]) -> None:
        self.windows, _, text = metadata.partition(_MARK)
        try:
            committed = msgspec.json.decode(text or "[]", type=list[Attempt])
        except msgspec.DecodeError:  # the metadata was written by another version
            committed = []
        unique = dict.fromkeys((*attempts, *committed))
        self._attempts = tuple(one for one in unique if (one.topic, one.partition) == partition)

    def metadata(self, windows: str, offset: int) -> str:
        """Return the metadata to commit with `offset`: the text `windows`, followed by the newest failed attempts to read records from `offset` on."""
        ahead = [attempt for attempt in self._attempts if attempt.last >= offset][:KEEP_MAX]
        return windows + _MARK + msgspec.json.encode(ahead).decode() if ahead else windows

    def parts(self, batch: Batch) -> Iterator[tuple[Batch, Attempt]]:
        """Yield the batch in parts, each with its read attempt; a record with a failed attempt gets a part of its own."""
        begin = 0
        for number in self._attempted(batch):
            if begin < number:
                yield _marked(batch, begin, number)
            record, attempt = _marked(batch, number, number + 1)
            yield record, self._continued(attempt)
            begin = number + 1
        if begin < len(batch.values):
            yield _marked(batch, begin, len(batch.values))

    def any(self, batch: Batch) -> bool:
        """Return whether an earlier attempt to read any record of this batch has failed."""
        return bool(self._attempted(batch))

    def _attempted(self, batch: Batch) -> list[int]:
        if not self._attempts:  # the most frequent case
            return []
        return [
            number
            for number, offset in enumerate(batch.offsets)
            if any(attempt.first <= offset <= attempt.last for attempt in self._attempts)
        ]

    def _continued(self, attempt: Attempt) -> Attempt:
        """Return `attempt`, which reads a single record, with the highest counts of the failed attempts to read this record."""
        failed = [one for one in self._attempts if one.first <= attempt.first <= one.last]
        alone = [one.alone for one in failed if one.written_ms == attempt.written_ms]
        return msgspec.structs.replace(attempt, ends=max(one.ends for one in failed), alone=max(alone, default=0))


def left_out(attempt: Attempt) -> Decoded:
    """Return the refusal of a record for which too many attempts failed."""
    detail = (
        f"The record {attempt} crashed {attempt.ends} collectors, so the agent skips it. Report the fault to the developers, and "
        "send it again with `scalewatch deadletter` once the cause is fixed."
    )
    return Decoded(rejects=[InvalidInputError(DECODER, detail)])


def _marked(batch: Batch, begin: int, end: int) -> tuple[Batch, Attempt]:
    part = batch.part(begin, end)
    return part, Attempt(part.topic, part.partition, part.offsets[0], part.offsets[-1], part.timestamps_ms[0])
