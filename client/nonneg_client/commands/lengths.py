"""The option that names lengths: 2048,512,512:64,2048/205,2048/64+."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_core.evaluation.lengths import Length


def read_lengths(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[Length] | None:
    """Read numbers of dimensions; N:M keeps the M largest of N, N/M of what is stored alone, N/M+ re-ranks."""
    if text is None:
        return None
    try:
        return [read_length(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not like 2048,512,128 or 512:64 (512 dimensions, top_k 64) or 2048/205 (stored with the 205 "
            "largest of 2048, asked with all) or 2048/64+ (and the first 200 put in order by whole vectors)"
        ) from None


def read_length(text: str) -> Length:
    """Read 512; 512:64 (the 64 largest of 512), 512/64 (these stored, asked whole) or 512/64+ (re-ranked)."""
    from nonneg_core.evaluation.lengths import Length

    between = "/" if "/" in text else ":"
    again = between == "/" and text.endswith("+")
    dimensions, found, top_k = text.removesuffix("+" if again else "").partition(between)
    return Length(int(dimensions), int(top_k) if found else None, asked_whole=between == "/", reranked=again)
