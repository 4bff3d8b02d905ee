"""Backbones, methods, losses, activations and loggers of your own, which settings take by name.

A file that registers them is run where it is given (`--plugin mine.py`) or imported. A run's folder names that file and
its sha256, and is never a reason to run it.
"""

import hashlib
import sys
from collections.abc import Callable, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from nonneg_core.errors import ConfigInvalid

Made = TypeVar("Made", bound=Callable[..., Any])
_registered: dict[tuple[str, str], Callable[..., Any]] = {}


def backbone(name: str) -> Callable[[Made], Made]:
    """Register a class or a function that is called without arguments and returns an `nn.Module`.

    The module takes float pixels (batch, 3, side, side), standardised as for ImageNet, and returns features
    (batch, width). For another standardisation, or a side of its own, return a `Backbone`.
    """
    return _registering("backbone", name)


def method(name: str) -> Callable[[Made], Made]:
    """Register a `Method`, which is called with the encoder and the run's settings."""
    return _registering("method", name)


def loss(name: str) -> Callable[[Made], Made]:
    """Register a function of two tensors (batch, D), two views of the same images, for `cl` and `ncl`."""
    return _registering("loss", name)


def activation(name: str) -> Callable[[Made], Made]:
    """Register a function of one tensor; one that is nowhere below zero goes with `ncl`, another with `cl`."""
    return _registering("activation", name)


def logger(name: str) -> Callable[[Made], Made]:
    """Register what is called with a run's folder and settings, and returns a callback of the run's events."""
    return _registering("logger", name)


def _registering(kind: str, name: str) -> Callable[[Made], Made]:
    def register(made: Made) -> Made:
        _registered[kind, name] = made
        return made

    return register


def find(kind: str, name: str) -> Callable[..., Any] | None:
    """Return what is registered by that name, or None."""
    return _registered.get((kind, name))


def names(kind: str) -> tuple[str, ...]:
    """Return all names of a kind."""
    return tuple(name for of, name in _registered if of == kind)


class Use(NamedTuple):
    """A name in the settings that may be a plug-in's."""

    field: str
    kind: str
    name: str


def record(uses: Iterable[Use]) -> tuple[str, ...]:
    """Return a line for each use of a plug-in: what it is, its file, and the file's sha256."""
    return tuple(f"{use.kind} {use.name} of {_source(made)}" for use in uses if (made := find(use.kind, use.name)))


def check_loaded(uses: Iterable[Use], recorded: Iterable[str]) -> None:
    """Refuse to go on where a run says that a name is a plug-in's, and nothing registers it here."""
    for use in uses:
        line = next((line for line in recorded if line.startswith(f"{use.kind} {use.name} of ")), None)
        if line is not None and not find(use.kind, use.name):
            raise ConfigInvalid(
                f"{use.field}={use.name!r} needs a plug-in that is not loaded: {line}",
                fix="read that file, then pass it with --plugin, or import it; nonneg never runs it unasked",
                field=use.field,
                value=use.name,
            )


def unknown(field: str, kind: str, name: str, known: Iterable[str]) -> ConfigInvalid:
    """Return the error of a name that is neither ours nor a plug-in's."""
    return ConfigInvalid(
        f"{field}={name!r} is unknown",
        fix=f"choose one of {', '.join([*known, *names(kind)])}, or pass the file that registers it with --plugin",
        field=field,
        value=name,
    )


def _source(made: Callable[..., Any]) -> str:
    path = getattr(sys.modules.get(made.__module__), "__file__", None)
    if path is None:
        return f"the module {made.__module__}"
    return f"{Path(path).name}, sha256 {hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


def load(path: Path) -> None:
    """Run a file that registers plug-ins."""
    name = f"nonneg_plugin_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigInvalid(f"{path} is not a Python file", fix="give a file that ends in .py", field="--plugin")
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _load_all(_: click.Context, __: click.Parameter, paths: tuple[Path, ...]) -> None:
    for path in paths:
        load(path)


plugin_option = click.option(
    "--plugin",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    expose_value=False,
    callback=_load_all,
    help="A Python file of your own backbones, methods, losses, activations or loggers; it is run.",
)
