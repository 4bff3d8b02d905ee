"""Where settings come from: command-line options made of the fields of `Settings`, the environment and a file."""

import difflib
import os
import tomllib
import types
from collections.abc import Callable, Iterable
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


def _option(name: str, field: FieldInfo) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind, several = _kind(field.annotation)
    names = [f"{flag(name)}/--no-{flag(name)[2:]}" if kind is bool else flag(name), name]
    return click.option(
        *names,
        type=None if kind is bool else kind,
        default=None,
        multiple=several,
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
OF_OTHERS = frozenset({"NONNEG_URL", "NONNEG_DATA", "NONNEG_ENGINE_KEY", "NONNEG_FEATURE_CACHE"})  # not ours


def read_settings(**flags: Any) -> Settings:
    """Return the settings of this run: flags first, then the environment, then the file, then the defaults."""
    given = {name: value for name, value in flags.items() if value is not None}
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
    return {name: value for name, value in table.items() if not os.environ.get(variable(name))}


def _fix(name: str) -> str:
    if name in Settings.model_fields:
        return f"change {flag(name)} or {variable(name)}"
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"did you mean {close[0]}?" if close else "see `nonneg serve --help` for what there is"
