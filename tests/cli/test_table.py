"""The command: quick to answer, lazy to import, plain when a part is not installed."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nonneg_cli import table as cli
from nonneg_core.errors import MissingExtra
from nonneg_core.terminal.installing import extra_hint

NONNEG = str(Path(sys.executable).parent / "nonneg")


def run(*arguments, **environment):
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )


def test_help_names_every_command():
    result = run(NONNEG, "--help")
    assert result.returncode == 0
    for name, entry in cli.COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert entry.summary.split()[0] in result.stdout


def processor_time(*command):
    """Seconds; a busy machine counts less than by the clock, but its caches are cold."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", ["httpx", "numpy", "PIL", "pydantic", "fastapi", "onnxruntime", "onnx", "torch"])
def test_help_loads_no_library_that_takes_time(name):
    code = "import sys; from nonneg_cli.table import main\ntry: main()\nfinally: print([*sys.modules])"
    result = run(sys.executable, "-c", code, "--help")
    assert "Usage: " in result.stdout
    assert f"'{name}'" not in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("statement", "beside", "most"),
    [
        ("import nonneg_client", "import numpy", 0.8),  # nothing is loaded yet
        ("from nonneg_client import Client", "import httpx, numpy, pydantic, PIL.Image", 1.5),  # what it stands on
    ],
)
def test_the_import_is_quick(statement, beside, most):
    """In turns, each less an interpreter that does nothing: a busy machine slows all three."""
    code = ("pass", beside, statement)
    empty, theirs, ours = (min(times) for times in zip(*(map(timed, code) for _ in range(7)), strict=True))
    assert ours - empty < most * (theirs - empty)


def timed(code):
    return processor_time(sys.executable, "-c", code)


@pytest.mark.parametrize("name", ["click", "httpx", "numpy", "tqdm", "PIL", "pydantic"])
def test_importing_the_package_loads_nothing(name):
    code = f"import sys, nonneg_client; sys.exit({name!r} in sys.modules)"
    assert run(sys.executable, "-c", code).returncode == 0


def test_version_is_the_distributions():
    from nonneg_client import __version__

    assert run(NONNEG, "--version").stdout == f"nonneg {__version__}\n"


def test_an_unknown_command_is_refused():
    result = run(NONNEG, "embedd", "photos/")
    assert result.returncode == 2
    assert "No such command 'embedd'. Did you mean embed?" in result.stderr
    assert "There are train, " in run(NONNEG, "xyz").stderr


def test_a_missing_extra_is_told_with_the_pip_command(monkeypatch):
    entry = cli.Subcommand("nonneg_client.absent_for_test:x", "A part that is not there.", "search")
    monkeypatch.setitem(cli.COMMANDS, "absent", entry)

    def gone(module):
        raise ModuleNotFoundError("No module named 'scipy.sparse'", name="scipy.sparse")

    monkeypatch.setattr(cli, "import_module", gone)
    result = CliRunner().invoke(cli.nonneg, ["absent"])
    assert isinstance(result.exception, MissingExtra)
    assert result.exception.message == "nonneg absent needs scipy.sparse"
    assert result.exception.fix == extra_hint("search")


def test_a_module_of_ours_that_is_missing_is_not_a_missing_extra(monkeypatch):
    monkeypatch.setitem(
        cli.COMMANDS, "absent", cli.Subcommand("nonneg_client.absent_for_test:x", "Not there.", "search")
    )
    assert isinstance(CliRunner().invoke(cli.nonneg, ["absent"]).exception, ModuleNotFoundError)


ONLY_THE_CLIENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "onnx", "onnxruntime", "uvicorn", "fastapi", "safetensors"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from nonneg_cli.table import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve"], "server"),
        (["train", "--data", "digits", "--out", "run"], "training"),
        (["export", "run", "--calibrate", ".", "--out", "bundle"], "training"),
    ],
)
def test_a_light_install_names_the_extra_of_each_command_it_cannot_run(arguments, extra, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(sys.executable, "-c", ONLY_THE_CLIENT, *arguments)
    assert result.returncode == 1
    fix = re.escape(extra_hint(extra))
    assert re.fullmatch(rf"Error: nonneg {arguments[0]} needs \w+\nFix:   {fix}\n", result.stderr)


@pytest.mark.parametrize("command", [name for name, entry in cli.COMMANDS.items() if entry.extra])
def test_help_without_the_extra_says_what_to_install(command):
    result = run(sys.executable, "-c", ONLY_THE_CLIENT, command, "--help")
    if result.returncode == 0:  # what it needs is imported only when it runs
        assert f"Usage: nonneg {command}" in result.stdout
    else:
        assert result.stderr.startswith(f"Error: nonneg {command} needs ")
        assert extra_hint(cli.COMMANDS[command].extra) in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_complete(shell):
    script = run(NONNEG, _NONNEG_COMPLETE=f"{shell}_source")
    assert script.returncode == 0
    assert "_NONNEG_COMPLETE" in script.stdout


def test_completion_offers_the_commands_without_loading_them():
    result = run(NONNEG, _NONNEG_COMPLETE="bash_complete", COMP_WORDS="nonneg e", COMP_CWORD="1")
    assert result.stdout.split() == [f"plain,{name}" for name in cli.COMMANDS if name.startswith("e")]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_row_of_the_table_names_a_command_that_is_there(name):
    module, _, attribute = cli.COMMANDS[name].home.partition(":")
    assert isinstance(getattr(import_module(module), attribute), click.Command)
