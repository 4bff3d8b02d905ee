"""Options that a kind of model has no use for are refused, so that none is accepted and ignored."""

from __future__ import annotations

from collections.abc import Mapping

from nonneg_core.errors import ConfigInvalid

OF_OUTPUTS = "an ONNX file or a model of transformers"
OF_NAMES = "a model that is fetched by its name"
SERVES = {
    "--file": "a repository of the hub",
    "--input": "an ONNX file",
    "--output": OF_OUTPUTS,
    "--pool": OF_OUTPUTS,
    "--no-text": "a model that may have a text tower",
    "--accept-license": OF_NAMES,
    "--max-download": OF_NAMES,
}


def refuse_unused(what: str, given: Mapping[str, str | float | bool | None]) -> None:
    """Raise ConfigInvalid where an option was given that means nothing for this; `given`: values by option."""
    for flag, value in given.items():
        if value in (None, False):
            continue
        said = flag if value is True else f"{flag} {value}"
        raise ConfigInvalid(
            f"{said} is for {SERVES[flag]}, not for {what}",
            fix="leave it out",
            field=flag.removeprefix("--").replace("-", "_"),
            value=value,
        )
