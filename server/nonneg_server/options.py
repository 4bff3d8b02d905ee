"""Command-line options made from the fields of `Settings`, shown in the fields' groups."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from nonneg_server.renamed_settings import RENAMED, RENAMED_VALUES
from nonneg_server.settings import Settings, flag, group_of, metavar_of, variable


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function with one option a setting; those not given arrive as None."""
    for name, field in reversed(Settings.model_fields.items()):
        command = _option(name, field)(command)
    for old, new in RENAMED.items():
        command = _option(old, Settings.model_fields[new], hidden=True)(command)
    return command


class Grouped(click.Command):
    """A command whose help lists its options under the settings' groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            field = Settings.model_fields.get(parameter.name or "")
            groups.setdefault("Other" if field is None else group_of(field), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


class _Choice(click.Choice[str]):
    """One of the values that are listed, or the former name of one."""

    def __init__(self, choices: Sequence[str], former: Mapping[str, str]) -> None:
        super().__init__(choices)
        self._former = former

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if value in self._former else super().convert(value, param, ctx)


def _option(name: str, field: FieldInfo, *, hidden: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind, several = _kind(field.annotation)
    if isinstance(kind, click.Choice):
        kind = _Choice(kind.choices, RENAMED_VALUES.get(name, {}))
    names = [f"{flag(name)}/--no-{flag(name)[2:]}" if kind is bool else flag(name), name]
    return click.option(
        *names,
        type=None if kind is bool else kind,
        default=None,
        multiple=several,
        hidden=hidden,
        metavar=metavar_of(field),
        help=f"{field.description} [{variable(name)}{shown_default(field)}]",
        callback=(lambda _ctx, _option, given: given or None) if several else None,
    )


def shown_default(field: FieldInfo) -> str:
    """Return `; default: 8000`, or nothing where there is none."""
    default = field.default
    if default is None or default == () or default == "":
        return ""
    return f"; default: {str(default).lower() if isinstance(default, bool) else default}"


def _kind(annotation: Any) -> tuple[Any, bool]:
    """Return the click type of an annotation, and whether the option may be repeated."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _kind(next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        return _kind(arguments[0])[0], True
    if origin is Literal:
        return click.Choice([str(a) for a in arguments]), False
    return (click.Path(path_type=Path) if annotation is Path else annotation), False
