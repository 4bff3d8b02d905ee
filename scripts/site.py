#!/usr/bin/env python3
"""Build the site of the documentation: `python scripts/site.py`, then open build/site/index.html.

Its pages are those of docs/ and two that are written from the code: every command with its help, and the Python API.
A link that leaves docs/ becomes the name of the file in the repository. A warning of the builder is an error.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nonneg_cli.table import nonneg

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "pages"
API = (
    "nonneg_client",
    "nonneg_client.search",
    "nonneg_client.storage",
    "nonneg_client.converters",
    "nonneg_vectors",
    "nonneg_training",
)
LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]*|adr[^)\s]*)\)")


def main() -> None:
    """Write the pages and build the site of them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for path in sorted((ROOT / "docs").iterdir()):
        if path.suffix == ".md":
            (PAGES / path.name).write_text(LINK.sub(named_file, path.read_text(encoding="utf-8")), encoding="utf-8")
        elif path.is_file():
            shutil.copyfile(path, PAGES / path.name)
    (PAGES / "commands.md").write_text(commands_page(), encoding="utf-8")
    (PAGES / "api.md").write_text(api_page(), encoding="utf-8")
    builder = Path(sys.executable).with_name("zensical")
    sys.exit(subprocess.run([builder, "build", "--clean", "--strict"], cwd=ROOT, check=False).returncode)


def named_file(link: re.Match[str]) -> str:
    """Return a link's text followed by the file that it leads to, unless the text names it already."""
    text, target = link[1], link[2].partition("#")[0]
    path = target.removeprefix("../") if target.startswith("../") else f"docs/{target}"
    return text if text.strip("`") == path else f"{text} (`{path}` in the repository)"


def commands_page() -> str:
    """Return every command with what its `--help` prints."""
    parts = ["# Every command\n\nWhat `nonneg COMMAND --help` prints."]
    top = click.Context(nonneg, info_name="nonneg", terminal_width=100)
    for name in nonneg.list_commands(top):
        command = nonneg.get_command(top, name)
        assert command is not None
        text = command.get_help(click.Context(command, info_name=name, parent=top, terminal_width=100))
        parts.append(f"## nonneg {name}\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def api_page() -> str:
    """Return where the reference of each public class and function of Python is to stand."""
    parts, listed = ["# The Python API"], set()
    for package in API:
        parts.append(f"## {package}\n\n{inspect.getdoc(importlib.import_module(package))}")
        for path in public_paths(package):
            if path not in listed:
                parts.append(f"::: {path}")
            listed.add(path)
    return "\n\n".join(parts) + "\n"


def public_paths(package: str) -> Iterator[str]:
    """Yield where the public classes and functions of a package are defined."""
    module = importlib.import_module(package)
    for name in sorted(getattr(module, "__all__", None) or vars(module)):
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", None) == package
        if own and (inspect.isclass(value) or inspect.isfunction(value)) and not name.startswith("_"):
            yield f"{value.__module__}.{value.__qualname__}"


if __name__ == "__main__":
    main()
