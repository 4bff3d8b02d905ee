"""`cifar10:test` wherever a command takes a folder of images: the named data set's images, unpacked once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

NAMES = ("digits", "cifar10", "cifar100", "stl10", "fashion-mnist")
ARGUMENTS, OPTIONS = ("data", "images", "sources"), ("calibrate", "evaluate", "photos")  # that take images
_NAMED = re.compile(rf"({'|'.join(NAMES)})(:\w+)?")


class OrNamed(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click alone
    """What a parameter takes, or the name of a data set in its place."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name = inner, inner.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the folder of the named images, or what the parameter makes of the value itself."""
        if isinstance(value, str) and _NAMED.fullmatch(value) and not Path(value).exists():
            value = str(_unpacked(value))
        return self.inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what the parameter completes by itself, and names."""
        named = [CompletionItem(name) for name in NAMES if incomplete and name.startswith(incomplete)]
        completed: list[CompletionItem] = self.inner.shell_complete(ctx, param, incomplete)
        return [*named, *completed]


def accept_names(command: click.Command) -> click.Command:
    """Let every parameter of a command that takes images take names too."""
    for param in command.params:
        takes = ARGUMENTS if isinstance(param, click.Argument) else OPTIONS
        if param.name in takes and not isinstance(param.type, OrNamed):
            param.type = OrNamed(param.type)
    return command


def _unpacked(name: str) -> Path:
    from nonneg_core.installing import needing

    with needing(f"the data set {name}", extra="training"):
        from nonneg_training.data.as_folder import unpacked
    return unpacked(name)
