"""The option that names lengths: 1280,512,512:64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_core.evaluation.lengths import Length


def read_lengths(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[Length] | None:
    """Each part is a number of dimensions; N:M keeps the M largest of N."""
    if text is None:
        return None
    try:
        return [read_length(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 1280,512,128 or 512:64 (512 dimensions, top_k 64)") from None


def read_length(text: str) -> Length:
    """512, or 512:64 for the 64 largest of 512; ValueError if it is neither."""
    from nonneg_core.evaluation.lengths import Length

    dimensions, colon, top_k = text.partition(":")
    return Length(int(dimensions), int(top_k) if colon else None)
