"""Reloads: the parent process reads and checks the configuration again, and restarts the roles with it.

A restart is the only way to change a role. So a reload stops and restarts each role in order: the role writes a last
checkpoint, then restores its state from the broker. Problems of a file are logged, and the former configuration stays in use.
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
from agent.config.changes import KeyChange, changes
from agent.config.checks import faults
from agent.config.load import load
from agent.config.reference import needs_restart
from agent.config.references import FILE_BYTES_MAX as REFERENCE_BYTES_MAX
from agent.config.references import TABLES, References, calendar_digest, references, retain
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, Problem, open_regular
from processors.contracts.errors import described

WATCH_S: Final = 5.0  # a changed file is read once two checks found the same content: the first may see half of it
# a role that exits with a configuration error within this time after a reload has rejected the new configuration
UNDO_S: Final = 60.0
SHOWN_MAX: Final = 20
CALENDAR: Final = "reference.calendar"


class _InUse(msgspec.Struct, frozen=True):
    """The current configuration, the content of its reference files, and a digest of each file that it names."""

    config: Config
    references: References
    digests: Mapping[str, str]


class Reloader:
    """The current configuration and its file; a signal sets `requested` to trigger a reload.

    With `watch`, a change of the configuration file or of a file named in it also triggers a reload.
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
        """Reload the file if a reload was requested; return whether the roles must restart."""
        if not (self.requested.is_set() or self._changed()):
            return False
        self.requested.clear()
        # before reading, so that the next check finds changes that are made during this one
        before = self._read = self._seen = self._fingerprint()
        try:
            return self._take(load(self._path, sources_required=True), before)
        except InvalidConfigError as error:
            self._refuse([str(problem) for problem in error.problems])
        except Exception as error:  # noqa: BLE001 - no fault of a file may end a running role
            self._refuse([described(error)])
        return False

    def undo(self, role: str) -> bool:
        """Restore the previous configuration, because `role` refuses the new one. Return False without a previous one, or after UNDO_S."""
        if self._former is None or self._clock.monotonic_s() - self._taken_s > UNDO_S:
            return False
        self._use(self._former)
        self._former = None
        self._read = self._seen = self._fingerprint()
        self._refuse(
            [f"The {role} refused the new configuration; the last line of the {role} in the log gives the reason."]
        )
        return True

    def _changed(self) -> bool:
        now_s = self._clock.monotonic_s()
        if not self._watch or now_s < self._look_s:
            return False
        self._look_s = now_s + WATCH_S
        fingerprint = self._fingerprint()
        settled, self._seen = fingerprint == self._seen, fingerprint
        return settled and fingerprint != self._read

    def _fingerprint(self) -> Mapping[str, str]:
        return _digests({"": self._path, **_files(self._in_use.config)})

    def _take(self, loaded: Config, before: Mapping[str, str]) -> bool:
        """Apply and log the changes that need no restart of the agent, and log the others; return whether any change was applied."""
        former = self._in_use
        merged = loaded.model_copy(update={"topics": former.config.topics})
        contradictions = [
            Problem(self._path, 0, 0, path, f"{text} A reload leaves topics as they are: restart the agent.")
            for path, text in faults(merged, frozenset())
        ]
        if contradictions:
            raise InvalidConfigError(contradictions)
        changed, paths = changes(former.config, loaded), _files(merged)
        applied = [change for change in changed if not needs_restart(change.path)]
        waiting = [change for change in changed if needs_restart(change.path)]
        digests = {**_digests(paths), **{path: before[path] for path in paths.values() if path in before}}
        files = [key for key, path in paths.items() if former.digests.get(path, digests[path]) != digests[path]]
        self._report(applied, files, waiting)
        if applied or files:
            self._former, self._taken_s = former, self._clock.monotonic_s()
            self._use(_InUse(merged, references(merged.reference), digests))
            self._read = self._seen = {self._path: before[self._path], **digests}
        self._handover.write(Status(self._loaded_ms, waiting=len(waiting)))
        return bool(applied or files)

    def _use(self, in_use: _InUse) -> None:
        retain(in_use.config.reference, in_use.references)
        self._handover.replace(in_use.config)
        self._in_use, self._loaded_ms = in_use, self._clock.now_ms()
        logs.configure(in_use.config.log)

    def _report(self, applied: Sequence[KeyChange], files: Sequence[str], waiting: Sequence[KeyChange]) -> None:
        for change in applied:
            self._log.info("key applied", change=str(change))
        for key in files:
            self._log.info("file applied", key=key)
        for change in waiting:
            self._log.warning("key waits for a restart of the agent", change=str(change))
        outcome = "configuration reloaded, the roles restart" if applied or files else "configuration unchanged"
        self._log.info(outcome, taken=len(applied) + len(files), waiting=len(waiting))

    def _refuse(self, problems: Sequence[str]) -> None:
        # the files of the current configuration, not the files just read
        retain(self._in_use.config.reference, self._in_use.references)
        shown = list(problems[:SHOWN_MAX])
        self._log.error(
            "configuration rejected, the previous configuration stays in use", file=self._path, problems=shown
        )
        self._handover.write(Status(self._loaded_ms, problems=len(problems)))


def _files(config: Config) -> dict[str, str]:
    """Return the paths of the files named in the configuration, by configuration key."""
    security, reference = config.kafka.security, config.reference
    paths: dict[str, str | None] = {
        **{f"reference.{name}": getattr(reference, name) for name in TABLES},
        "kafka.security.ca_file": security.ca_file,
        "kafka.security.cert_file": security.cert_file,
        "kafka.security.key_file": security.key_file,
        "alertmanager.ca_file": config.alertmanager.ca_file,
        **{f"{CALENDAR}[{number}]": path for number, path in enumerate(reference.calendar)},
    }
    return {key: path for key, path in paths.items() if path is not None}


def _digests(paths: Mapping[str, str]) -> Mapping[str, str]:
    """Return a digest of each file's content by path; the digest is empty if the file cannot be read."""
    return {path: _digest(Path(path), is_calendar=key.startswith(CALENDAR)) for key, path in paths.items()}


def _digest(path: Path, *, is_calendar: bool) -> str:
    try:
        with open_regular(path) as file:
            if is_calendar:  # Slurm writes the query time into its calendar; a new query time alone is no change
                return calendar_digest(file.read(REFERENCE_BYTES_MAX).decode(errors="replace"))
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
