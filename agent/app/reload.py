"""Reloads: the configuration is read again, checked, and handed to the roles, which start again with it.

A role that starts again is the one way in which anything of it changes, so a reload is an orderly end and a start: a last
checkpoint, and the state from the broker. What is wrong with a file is told, and the configuration before it stays in use.
"""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from agent.app import logs
from agent.app.handover import Handover, Status
from agent.clock import Clock
from agent.config import calendar
from agent.config.changes import Change, changes
from agent.config.checks import faults
from agent.config.load import load
from agent.config.reference import needs_restart
from agent.config.references import FILE_BYTES_MAX as REFERENCE_BYTES_MAX
from agent.config.references import TABLES, References, references, retain
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, Problem, open_regular, path_text
from processors.contracts.errors import described

WATCH_S: Final = 5.0  # a file is read once it has been the same at two looks: it may be half written
UNDO_S: Final = 60.0  # a role that refuses its configuration so soon after a reload refuses the new one
SHOWN_MAX: Final = 20
CALENDAR: Final = ("reference", "calendar")


class _InUse(msgspec.Struct, frozen=True):
    """A configuration, what is in its reference files, and a digest of each file that it names."""

    config: Config
    known: References
    digests: Mapping[str, str]


class Reloader:
    """The configuration in use and its file; `requested` is set, by a signal, when the file has to be read again.

    With `watch` a change of the file, or of one that it names, asks for it as well.
    """

    def __init__(self, path: str, config: Config, handover: Handover, clock: Clock, log: Any, *, watch: bool) -> None:
        self._path, self._handover, self._clock, self._log = path, handover, clock, log
        self.requested = threading.Event()
        self._watch = watch
        self._in_use = _InUse(config, references(config.reference), _digests(_files(config)))
        self._read = self._seen = self._fingerprint()
        self._look_s = clock.monotonic_s() + WATCH_S
        self._loaded_ms = clock.now_ms()
        self._former: _InUse | None = None
        self._taken_s = 0.0

    def look(self) -> bool:
        """Read the file again where that is asked for; return whether the roles have to start again."""
        if not (self.requested.is_set() or self._changed()):
            return False
        self.requested.clear()
        before = self._read = self._seen = self._fingerprint()  # what is written from now on is found by the next look
        try:
            return self._take(load(self._path, sources_required=True), before)
        except InvalidConfigError as error:
            self._refuse([str(problem) for problem in error.problems])
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a file, it ends nothing that runs
            self._refuse([described(error)])
        return False

    def undo(self, role: str) -> bool:
        """Put the configuration before the last reload back, where a role refuses the new one; return whether that is done."""
        if self._former is None or self._clock.monotonic_s() - self._taken_s > UNDO_S:
            return False
        self._use(self._former)
        self._former = None
        self._read = self._seen = self._fingerprint()
        self._refuse([f"The {role} refused it; its last line in the log says why."])
        return True

    def _changed(self) -> bool:
        now_s = self._clock.monotonic_s()
        if not self._watch or now_s < self._look_s:
            return False
        self._look_s = now_s + WATCH_S
        found = self._fingerprint()
        settled, self._seen = found == self._seen, found
        return settled and found != self._read

    def _fingerprint(self) -> Mapping[str, str]:
        return _digests({"": self._path, **_files(self._in_use.config)})

    def _take(self, found: Config, before: Mapping[str, str]) -> bool:
        """Take over what needs no restart of the agent, and say what was taken and what was left."""
        former = self._in_use
        merged = found.model_copy(update={"topics": former.config.topics})
        contradictions = [
            Problem(self._path, 0, 0, path, f"{text} A reload leaves topics as they are: restart the agent.")
            for path, text in faults(merged, frozenset())
        ]
        if contradictions:
            raise InvalidConfigError(contradictions)
        changed, named = changes(former.config, found), _files(merged)
        taken = [change for change in changed if not needs_restart(change.path)]
        waiting = [change for change in changed if needs_restart(change.path)]
        digests = {**_digests(named), **{path: before[path] for path in named.values() if path in before}}
        files = [key for key, path in named.items() if former.digests.get(path, digests[path]) != digests[path]]
        self._report(taken, files, waiting)
        if taken or files:
            self._former, self._taken_s = former, self._clock.monotonic_s()
            self._use(_InUse(merged, references(merged.reference), digests))
            self._read = self._seen = {self._path: before[self._path], **digests}
        self._handover.write(Status(self._loaded_ms, waiting=len(waiting)))
        return bool(taken or files)

    def _use(self, found: "_InUse") -> None:
        retain(found.config.reference, found.known)
        self._handover.replace(found.config)
        self._in_use, self._loaded_ms = found, self._clock.now_ms()
        logs.configure(found.config.log)

    def _report(self, taken: Sequence[Change], files: Sequence[str], waiting: Sequence[Change]) -> None:
        for change in taken:
            self._log.info("key taken over", change=str(change))
        for key in files:
            self._log.info("file taken over", key=key)
        for change in waiting:
            self._log.warning("key waits for a restart of the agent", change=str(change))
        outcome = "configuration reloaded, the roles start again" if taken or files else "configuration unchanged"
        self._log.info(outcome, taken=len(taken) + len(files), waiting=len(waiting))

    def _refuse(self, problems: Sequence[str]) -> None:
        retain(self._in_use.config.reference, self._in_use.known)  # not what was just read
        shown = list(problems[:SHOWN_MAX])
        self._log.error("configuration refused, the one before stays in use", file=self._path, problems=shown)
        self._handover.write(Status(self._loaded_ms, problems=len(problems)))


def _files(config: Config) -> dict[str, str]:
    """Return the paths of files that are no part of the tree, by the key that names them."""
    security = config.kafka.security
    named: dict[tuple[str | int, ...], str | None] = {
        **{("reference", name): getattr(config.reference, name) for name in TABLES},
        ("kafka", "security", "ca_file"): security.ca_file,
        ("kafka", "security", "cert_file"): security.cert_file,
        ("kafka", "security", "key_file"): security.key_file,
        ("alertmanager", "ca_file"): config.alertmanager.ca_file,
    }
    for number, path in enumerate(config.reference.calendar):
        named[*CALENDAR, number] = path
    return {path_text(key): path for key, path in named.items() if path is not None}


def _digests(named: Mapping[str, str]) -> Mapping[str, str]:
    """Return a digest of each file's content by its path; an empty one where it cannot be read."""
    return {path: _digest(Path(path), is_calendar=key.startswith(path_text(CALENDAR))) for key, path in named.items()}


def _digest(path: Path, *, is_calendar: bool) -> str:
    try:
        with open_regular(path) as file:
            if is_calendar:  # Slurm's says when it was asked: that alone is no change
                return calendar.digest(file.read(REFERENCE_BYTES_MAX).decode(errors="replace"))
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
