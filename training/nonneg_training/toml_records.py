"""Records as TOML: read from a file, written as text."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid


def read_toml(path: Path) -> dict[str, Any]:
    """Return the record in a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read ({error.strerror})", fix="check the path", value=str(path)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} is not TOML ({error})", fix="mend that line", value=str(path)) from error


def to_toml(record: dict[str, Any]) -> str:
    """Return scalars and lists first, then a table a section; JSON's scalars are TOML's."""
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in record.items()
        if not isinstance(value, dict)
    ]
    for key, value in record.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", to_toml(value).rstrip("\n")]
    return "\n".join(lines) + "\n"
