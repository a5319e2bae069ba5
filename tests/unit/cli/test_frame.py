"""The frame of the command line: commands, help, errors and exit codes."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from agent.cli import COMMANDS, Commands, error_text, main, report_error
from processors import __version__
from processors.contracts.errors import ConfigError, UnavailableError
from tests.kit.cases import each

MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
LOOK = "import sys; sys.argv = ['scalewatch', '--help']; from agent.cli import main\ntry: main()\nexcept SystemExit: print(sorted(sys.modules))"


def test_help_lists_every_command_and_the_exit_codes() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in result.output
    assert "0 success, 1 failure, 2 wrong usage or configuration" in result.output


def test_help_loads_nothing_heavy() -> None:
    shown = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    modules = shown.stdout.rpartition("[")[2]
    for heavy in ("numpy", "scipy", "kafka", "pydantic", "yaml", "prometheus_client", "starlette"):
        assert f"'{heavy}'" not in modules


@pytest.mark.parametrize(("output", "threads"), [(None, "1"), ("2", "2")])
def test_matrices_take_one_thread_unless_the_operator_states_otherwise(output: str | None, threads: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != MATRIX_THREADS}
    environment |= {MATRIX_THREADS: output} if output else {}
    look = f"import os; import agent.cli; print(os.environ['{MATRIX_THREADS}'])"
    shown = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.strip() == threads


def test_the_version_is_reported() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"scalewatch {__version__}\n"


@each("name", COMMANDS)
def test_every_listed_command_is_there_with_help_for_all_its_options(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["valdate"], "There is no command 'valdate'; did you mean validate?"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["validate"], "Missing option"),
        (["validate", "-c", "x", "--frob"], "No such option"),
        (["describe", "weather"], "is not one of"),
    ],
)
def test_wrong_usage_states_what_is_wrong_and_exits_with_2(arguments: list[str], output: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert output in result.output


def failing(error: Exception) -> click.Group:
    @click.command()
    def command() -> None:
        raise error

    class Failing(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            del ctx, cmd_name
            return command

    return Failing(params=main.params)


@pytest.mark.parametrize(
    ("error", "code", "output"),
    [
        (ConfigError("The key is wrong."), 2, "scalewatch: The key is wrong.\n"),
        (UnavailableError("The broker is away."), 1, "scalewatch: The broker is away.\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 1, "scalewatch: No such file or directory: 'x'.\n"),
        (ZeroDivisionError("division by zero"), 1, "scalewatch: Internal error (ZeroDivisionError"),
    ],
)
def test_an_error_is_one_message_without_a_trace(error: Exception, code: int, output: str) -> None:
    result = CliRunner().invoke(failing(error), ["demo"])
    assert result.exit_code == code
    assert result.stderr.startswith(output)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_verbose_shows_the_trace_too() -> None:
    result = CliRunner().invoke(failing(UnavailableError("The broker is away.")), ["--verbose", "demo"])
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("scalewatch: The broker is away.\n")


def test_an_error_of_many_lines_names_the_program_on_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(ConfigError("one\ntwo"), verbose=False) == 2
    assert capsys.readouterr().err == "scalewatch: one\nscalewatch: two\n"
    assert error_text(PermissionError(13, "Permission denied")) == "Permission denied."
