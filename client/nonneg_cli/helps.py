"""Stored help texts of commands whose extra is not installed.

`python -m nonneg_cli.helps`, where all extras are installed, writes the texts again; a test holds them to the commands.
"""

from __future__ import annotations

from pathlib import Path

import click

from nonneg_cli.table import COMMANDS, nonneg

FOLDER = Path(__file__).parent / "help"
WIDTH = 100


def stored(command: str) -> str:
    """Return the help of a command as it was written down."""
    return (FOLDER / f"{command}.txt").read_text(encoding="utf-8").rstrip("\n")


def rendered(command: str) -> str:
    """Return the help of a command as it tells it itself."""
    parent = click.Context(nonneg, info_name="nonneg", terminal_width=WIDTH, max_content_width=WIDTH)
    parent.help_option_names = ["-h", "--help"]
    found = nonneg.get_command(parent, command)
    assert found is not None
    with click.Context(found, parent, info_name=command) as context:
        return found.get_help(context)


def main() -> None:
    """Write the help of every command that needs an extra."""
    FOLDER.mkdir(exist_ok=True)
    for name, entry in COMMANDS.items():
        if entry.extra is not None:
            (FOLDER / f"{name}.txt").write_text(rendered(name) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
