"""The settings of this run: from flags, the environment and a file, each checked, with errors that name the place."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nonneg_core.errors import ConfigInvalid
from nonneg_server.renamed_settings import from_old_variables, with_new_names
from nonneg_server.settings import PREFIX, Settings, flag, variable

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
        f"{name} is not a setting and changes nothing: did you mean {found[0]}?"
        for name, found in close.items()
        if found
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
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} cannot be read ({error})", fix="check --config", field="config") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path} is not TOML: {error}", fix='write lines like port = 9000 or host = "::"') from None
    return {name: value for name, value in with_new_names(found).items() if not os.environ.get(variable(name))}


def _fix(name: str) -> str:
    if name in Settings.model_fields:
        return f"change {flag(name)} or {variable(name)}"
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"did you mean {close[0]}?" if close else "see `nonneg serve --help` for what there is"
