"""`cifar10:test` or `mini/val` where a command takes a folder: a named data set, or a folder below $NONNEG_DATA."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

NAMES = ("digits", "cifar10", "cifar100", "stl10", "fashion-mnist")
HOME = "NONNEG_DATA"  # the variable with the folder of named data sets
SOURCES = ("images", "sources")  # arguments that take folders beside other things
ARGUMENTS, OPTIONS = ("data", "photos", "a", "b"), ("calibrate", "evaluate", "photos", "images", "others")  # of paths
_NAMED = re.compile(rf"({'|'.join(NAMES)})(:\w+)?")


class OrNamed(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click alone
    """What a parameter takes, or the name of a data set in its place."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name = inner, inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the folder of the named images, or what the parameter makes of the value itself."""
        if isinstance(value, str) and not os.path.exists(value):  # noqa: PTH110 - a name may be no path at all
            value = _folder(value)
        return self.inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what the parameter completes by itself, and names."""
        named = [CompletionItem(name) for name in NAMES if incomplete and name.startswith(incomplete)]
        completed: list[CompletionItem] = self.inner.shell_complete(ctx, param, incomplete)
        return [*named, *completed]


def accept_names(command: click.Command) -> click.Command:
    """Let every parameter of a command that takes images take names too."""
    for param in command.params:
        argument = isinstance(param, click.Argument)
        of_paths = isinstance(param.type, click.Path) and param.name in (ARGUMENTS if argument else OPTIONS)
        if of_paths or (argument and param.name in SOURCES and not isinstance(param.type, OrNamed)):
            param.type = OrNamed(param.type)
    return command


def _folder(name: str) -> str:
    """Return the folder that a name stands for, or the name."""
    if _NAMED.fullmatch(name):
        return str(_unpacked(name))
    below = Path(os.environ[HOME], name) if os.environ.get(HOME) else None
    return str(below) if below is not None and os.path.isdir(below) else name  # noqa: PTH112 - as above


def _unpacked(name: str) -> Path:
    from nonneg_core.installing import needing

    with needing(f"the data set {name}", extra="training"):
        from nonneg_training.data.as_folder import unpacked
    return unpacked(name)
