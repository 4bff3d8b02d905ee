"""docs/settings.md, written from the settings and metrics themselves."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from nonneg_server.observation.metrics import METRICS
from nonneg_server.options import shown_default
from nonneg_server.settings import Settings, flag, group_of, metavar_of, variable

HEAD = """# Settings and metrics of `nonneg serve`

Made by `python -m nonneg_server.documentation.settings_page > docs/settings.md`; a test keeps it true.

Every setting is a flag, an environment variable, and a line in a TOML file (`--config`), under its name with
underscores: `--max-images 8`, `NONNEG_MAX_IMAGES=8`, `max_images = 8`. A flag goes before a variable, a variable
before the file.
"""


def page() -> str:
    """Return the whole page."""
    groups: dict[str, list[str]] = {}
    for name, field in Settings.model_fields.items():
        groups.setdefault(group_of(field), []).append(_row(name, field))
    parts = [HEAD]
    for group, rows in groups.items():
        parts.append(f"\n## {group}\n\n| flag | variable | default | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    metrics = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in METRICS.items())
    parts.append(
        "\n## Metrics\n\n`GET /metrics`, in Prometheus's text format; counters end in `_total`. Beside these the "
        f"process's own (`process_…`, `python_…`).\n\n| metric | |\n|---|---|\n{metrics}\n"
    )
    return "".join(parts)


def _row(name: str, field: FieldInfo) -> str:
    metavar = metavar_of(field)
    shown = f"`{flag(name)}{' ' + metavar if metavar else ''}`"
    default = shown_default(field).removeprefix("; default: ")
    description = (field.description or "").replace("|", "\\|")
    return f"| {shown} | `{variable(name)}` | {f'`{default}`' if default else ''} | {description} |"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201
