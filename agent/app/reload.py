"""Reloads: the configuration is read again, checked, and handed to the roles, which start again with it.

A role that starts again is the one way in which anything of it changes, so a reload is an orderly end and a start: a last
checkpoint, and the state from the broker. What is wrong with a file is told, and the configuration before it stays in use.
"""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent.app import logs
from agent.app.handover import Handover, Status
from agent.clock import Clock
from agent.config.changes import Change, changes
from agent.config.checks import faults
from agent.config.load import load
from agent.config.reference import needs_restart
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, Problem, path_text
from processors.contracts.errors import described

WATCH_S: Final = 5.0  # a file is read once it has been the same at two looks: it may be half written
UNDO_S: Final = 60.0  # a role that refuses its configuration so soon after a reload refuses the new one
SHOWN_MAX: Final = 20


class Reloader:
    """The configuration in use and its file; `asked` is set, by a signal, when the file has to be read again.

    With `watch` a change of the file, or of one that it names, asks for it as well.
    """

    def __init__(self, path: str, config: Config, handover: Handover, clock: Clock, log: Any, *, watch: bool) -> None:
        self._path, self._config, self._handover, self._clock, self._log = path, config, handover, clock, log
        self.asked = threading.Event()
        self._watch = watch
        self._beside = _digests(_files(config))
        self._read = self._seen = self._fingerprint()
        self._look_s = clock.monotonic_s() + WATCH_S
        self._loaded_ms = clock.now_ms()
        self._former: Config | None = None
        self._taken_s = 0.0

    def look(self) -> bool:
        """Read the file again where that is asked for; return whether the roles have to start again."""
        if not (self.asked.is_set() or self._changed()):
            return False
        self.asked.clear()
        self._read = self._seen = self._fingerprint()
        try:
            return self._take(load(self._path, sources_required=True))
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
        return _digests({"": self._path, **_files(self._config)})

    def _take(self, found: Config) -> bool:
        """Take over what needs no restart of the agent, and say what was taken and what was left."""
        kept = found.model_copy(update={"topics": self._config.topics})
        contradictions = [
            Problem(self._path, 0, 0, path, f"{text} A reload leaves topics as they are: restart the agent.")
            for path, text in faults(kept, frozenset())
        ]
        if contradictions:
            raise InvalidConfigError(contradictions)
        changed, beside = changes(self._config, found), _digests(_files(kept))
        taken = [change for change in changed if not needs_restart(change.path)]
        waiting = [change for change in changed if needs_restart(change.path)]
        files = [key for key in beside if beside[key] != self._beside.get(key, beside[key])]
        self._tell(taken, files, waiting)
        if taken or files:
            self._former, self._taken_s = self._config, self._clock.monotonic_s()
            self._use(kept)
        self._handover.write(Status(self._loaded_ms, waiting=len(waiting)))
        return bool(taken or files)

    def _use(self, config: Config) -> None:
        self._handover.replace(config)
        self._config, self._loaded_ms = config, self._clock.now_ms()
        self._beside = _digests(_files(config))
        self._read = self._seen = self._fingerprint()
        logs.configure(config.log)

    def _tell(self, taken: Sequence[Change], files: Sequence[str], waiting: Sequence[Change]) -> None:
        for change in taken:
            self._log.info("key taken over", change=str(change))
        for key in files:
            self._log.info("file taken over", key=key)
        for change in waiting:
            self._log.warning("key waits for a restart of the agent", change=str(change))
        sentence = "configuration reloaded, the roles start again" if taken or files else "configuration unchanged"
        self._log.info(sentence, taken=len(taken) + len(files), waiting=len(waiting))

    def _refuse(self, problems: Sequence[str]) -> None:
        shown = list(problems[:SHOWN_MAX])
        self._log.error("configuration refused, the one before stays in use", file=self._path, problems=shown)
        self._handover.write(Status(self._loaded_ms, problems=len(problems)))


def _files(config: Config) -> dict[str, str]:
    """Return the paths of files that are no part of the tree, by the key that names them."""
    security = config.kafka.security
    named = {
        ("reference", "nodes"): config.reference.nodes,
        ("reference", "units"): config.reference.units,
        ("kafka", "security", "ca_file"): security.ca_file,
        ("kafka", "security", "cert_file"): security.cert_file,
        ("kafka", "security", "key_file"): security.key_file,
        ("alertmanager", "ca_file"): config.alertmanager.ca_file,
    }
    return {path_text(key): path for key, path in named.items() if path is not None}


def _digests(files: Mapping[str, str]) -> Mapping[str, str]:
    """Return a digest of each file's content; an empty one where it cannot be read."""
    return {key: _digest(Path(path)) for key, path in files.items()}


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
