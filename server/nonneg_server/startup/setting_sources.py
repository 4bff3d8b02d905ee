"""Where settings come from: command-line options made of the fields of `Settings`, the environment and a file."""

from __future__ import annotations

import difflib
import logging
import os
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from nonneg_core.errors import ConfigInvalid
from nonneg_server.startup.server_settings import PREFIX, Settings, flag, group_of, metavar_of, variable


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


# The settings of this run: from flags, the environment and a file, each checked, with errors that name the place.

KUBERNETES = "Kubernetes sets this for a Service called nonneg: give the pod `enableServiceLinks: false`"
OF_OTHERS = frozenset({"NONNEG_URL", "NONNEG_FEATURE_CACHE"})  # that the client and training read


def read_settings(**flags: Any) -> Settings:
    """Return the settings of this run: flags first, then the environment, then the file, then the defaults."""
    flags = with_new_names({name: value for name, value in flags.items() if value is not None})
    given = from_old_variables() | flags
    file = given.get("config") or os.environ.get(variable("config"))
    from_file = {} if not file else _from_file(Path(file))
    try:
        return _closed(Settings(**{**from_file, **given}))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        where = f"{name} in {file}" if name in from_file and name not in given else flag(name)
        raise ConfigInvalid(
            f"{where}={first['input']!r}: {first['msg']}",
            fix=KUBERNETES if str(first["input"]).startswith("tcp://") else _fix(name),
            field=name,
            value=str(first["input"]),
        ) from None


def misspelt(environment: Iterable[str]) -> list[str]:
    """Return a line for every variable that is nearly a setting, and sets nothing."""
    known = [variable(name) for name in Settings.model_fields]
    strange = sorted(name for name in environment if name.startswith(PREFIX) and name not in {*known, *OF_OTHERS})
    close = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.85) for name in strange}
    return [
        f"{name} is not a setting and changes nothing: did you mean {matches[0]}?"
        for name, matches in close.items()
        if matches
    ]


def _closed(settings: Settings) -> Settings:
    """Return these, unless a key was meant and none is there: a secret that came empty must not open the server."""
    name = variable("api_key")
    if name in os.environ and not settings.api_key and settings.api_key_file is None:
        raise ConfigInvalid(
            f"{name} is set and holds no key", fix="put one there, or unset it to serve without keys", field="api_key"
        )
    return settings


def _from_file(path: Path) -> dict[str, Any]:
    """Return what the file sets and the environment does not."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read ({error})", fix="check --config", field="config") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path} is not TOML: {error}", fix='write lines like port = 9000 or host = "::"') from None
    return {name: value for name, value in with_new_names(table).items() if not os.environ.get(variable(name))}


def _fix(name: str) -> str:
    if name in Settings.model_fields:
        return f"change {flag(name)} or {variable(name)}"
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"did you mean {close[0]}?" if close else "see `nonneg serve --help` for what there is"


# Settings and values that have another name since the last release: the old ones still work, with a warning.

RENAMED = {"silence": "read_timeout", "arrival": "receive_timeout", "wide": "all_cores"}
RENAMED_VALUES = {"decode": {"fastest": "fast"}}  # of a setting: the old value, and the present one
logger = logging.getLogger("nonneg")


def with_new_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Put each setting under its present name; one given under both keeps the present one's value."""
    renamed = dict(given)
    for old, new in RENAMED.items():
        if old in renamed:
            value = renamed.pop(old)
            renamed.setdefault(new, value)
            _warn(old, new)
    for name, values in RENAMED_VALUES.items():
        if isinstance(former := renamed.get(name), str) and former in values:
            renamed[name] = values[former]
            _warn(f"{name}={former}", f"{name}={values[former]}")
    return renamed


def from_old_variables() -> dict[str, str]:
    """Return what the environment sets by old names alone, or to old values."""
    renamed = {}
    for old, new in RENAMED.items():
        value = os.environ.get(PREFIX + old.upper())
        if value and not os.environ.get(PREFIX + new.upper()):
            renamed[new] = value
            _warn(PREFIX + old.upper(), PREFIX + new.upper())
    for name, values in RENAMED_VALUES.items():
        if (value := os.environ.get(PREFIX + name.upper(), "")) in values:
            renamed[name] = values[value]
            _warn(f"{PREFIX}{name.upper()}={value}", f"{PREFIX}{name.upper()}={values[value]}")
    return renamed


def _warn(old: str, new: str) -> None:
    logger.warning("%s is called %s now; the old name works in this release, and not in the next", old, new)
