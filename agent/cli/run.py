"""`scalewatch run`: the agent on Kafka."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

import click

from agent.app import logs, supervisor
from agent.app.handover import Handover, Status
from agent.app.reload import Reloader
from agent.app.supervisor import Fuse
from agent.cli import lasting
from agent.cli.options import required_config_option, stopped_by_signals
from agent.clock import SystemClock
from agent.collector.recorder import RECORDER_FD, Recorder
from agent.config.load import load
from agent.config.tree import Config

RESTARTS: Final = "SCALEWATCH_RESTARTS"
PARENT: Final = "SCALEWATCH_PARENT"  # process id of the parent
BELOW: Final = "SCALEWATCH_BELOW"  # set if the parent process of this role reads the configuration
AWAY_SINCE: Final = "SCALEWATCH_AWAY_SINCE"  # start of the broker outage in which this role's last process ended
PARENT_LOOK_S: Final = 1.0
ROLES: Final = ("learner", "collector")


@click.command
@required_config_option
@click.option("--role", type=click.Choice(ROLES), default=None, help="Run only this role, in this process.")
@click.option("--watch", is_flag=True, help="Also reload the configuration when its file changes, not only on SIGHUP.")
def command(config: str, role: str | None, watch: bool) -> None:  # noqa: FBT001 - an option
    """Run the agent on Kafka until SIGTERM or Ctrl-C.

    Without --role, the collector and the learner run as two child processes, which are restarted if they exit. The learner
    serves the web pages, the metrics and the API on http.port; the collector serves its metrics and health on the next port.

    SIGHUP reloads the configuration and restarts the roles with it. Changes to `topics` need a restart of the agent. If the
    file has an error, the old configuration stays in use, and the log names the faulty keys.
    """
    inherited, clock = Handover.inherited(), SystemClock()
    settings = load(config, sources_required=True) if inherited is None else inherited.config()
    logs.configure(settings.log)
    stop = stopped_by_signals()
    _leave_with_parent(stop)
    handover = inherited or Handover.made(settings, Status(clock.now_ms()))
    if role is not None and BELOW in os.environ:
        _on_reload(signal.SIG_IGN)
        code = _alone(settings, role, stop, handover)
    else:
        reloader = Reloader(config, settings, handover, clock, logs.logger(role or "parent"), watch=watch)
        _on_reload(lambda *_: reloader.requested.set())
        if inherited is not None:
            reloader.requested.set()  # the file may have changed while this process started
        command_line = _CommandLine(config, role, watch)
        code = (
            _both(command_line, stop, handover, reloader)
            if role is None
            else _anew(command_line, settings, stop, handover, reloader)
        )
    click.get_current_context().exit(code)


def _on_reload(act: Callable[..., object] | signal.Handlers) -> None:
    """Set the SIGHUP handler; a SIGHUP that arrived while the program was loading stays pending until this call."""
    signal.signal(signal.SIGHUP, act)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


class _CommandLine(NamedTuple):
    """Arguments of the `run` command, from which the commands of role processes are built."""

    config: str
    role: str | None
    watch: bool

    def arguments(self, role: str) -> list[str]:
        """Return the command line that starts a role.

        Without -P, Python would prefer a file http.py or a folder agent/ of the working directory to the real module.
        """
        watch = ["--watch"] if self.watch else []
        return [sys.executable, "-P", "-m", "agent.cli", "run", "-c", self.config, "--role", role, *watch]


def _both(command_line: _CommandLine, stop: threading.Event, handover: Handover, reloader: Reloader) -> int:
    recorders = {role: Recorder.made(role) for role in ROLES}

    def start(role: str, restarts: int, away_since_s: float | None) -> subprocess.Popen[bytes]:
        text = {RESTARTS: str(restarts), PARENT: str(os.getpid()), BELOW: "1", **handover.environment}
        text[RECORDER_FD] = str(recorder_fd := recorders[role].descriptor)
        if away_since_s is not None:
            text[AWAY_SINCE] = str(away_since_s)
        return subprocess.Popen(  # noqa: S603 - our own program
            command_line.arguments(role), env={**os.environ, **text}, pass_fds=(*handover.descriptors, recorder_fd)
        )

    return supervisor.supervise(recorders, start, SystemClock(), stop, logs.logger("parent"), reloads=reloader)


def _anew(
    command_line: _CommandLine, config: Config, stop: threading.Event, handover: Handover, reloader: Reloader
) -> int:
    """Run one role without a parent process; after a reload, the process replaces itself and keeps its process id."""
    leave, reloaded, clock, role = threading.Event(), threading.Event(), SystemClock(), str(command_line.role)

    def look() -> None:
        while not clock.sleep(supervisor.LOOK_S, stop):
            if reloader.look():
                reloaded.set()
                break
        leave.set()

    threading.Thread(target=look, name="reload", daemon=True).start()
    code = _alone(config, role, leave, handover)
    if reloaded.is_set() and not stop.is_set():
        _begin_again(command_line, role, handover)
    return code


def _begin_again(command_line: _CommandLine, role: str, handover: Handover) -> NoReturn:
    # blocked until the new program handles the signal; the new program checks the file itself at its start
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    handover.pass_on()
    os.execve(sys.executable, command_line.arguments(role), {**os.environ, **handover.environment})  # noqa: S606 - our own


def _alone(config: Config, role: str, stop: threading.Event, handover: Handover) -> int:
    recorder = Recorder.inherited()
    if recorder is None:  # nobody started this role; it runs without a parent process
        recorder = Recorder.made(role)
        if attempt := recorder.settle():
            logs.logger(role).error("the previous process ended while it read records", reading=str(attempt))
        recorder.on_beat = Fuse(SystemClock())
    with lasting():
        from agent.app.roles import serve  # noqa: PLC0415 - the parent process needs none of the modules of the roles

    restarts, since = int(os.environ.get(RESTARTS, "0")), os.environ.get(AWAY_SINCE)
    away_since_s = None if since is None else float(since)
    return serve(config, role, stop, handover, recorder, restarts=restarts, away_since_s=away_since_s)


def _leave_with_parent(stop: threading.Event) -> None:
    """Set `stop` when the parent process has died, because a role without a parent has no supervisor."""
    parent = os.environ.get(PARENT)
    if parent is None:
        return

    def look() -> None:
        while not stop.wait(PARENT_LOOK_S):
            if str(os.getppid()) != parent:
                logs.logger("parent").error("the parent process has ended", pid=int(parent))
                stop.set()

    threading.Thread(target=look, name="parent", daemon=True).start()
