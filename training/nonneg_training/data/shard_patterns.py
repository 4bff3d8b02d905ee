"""Names of many shards in one: train-{000..099}.tar, {a,b}/{0..9}.tar, as shells and WebDataset write them."""

from __future__ import annotations

import re

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")


def expand(pattern: str) -> list[str]:
    """Return every name, the last braces counting fastest; numbers are as wide as the first one is written."""
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    first, last, choices = found.groups()
    if choices is not None:
        parts = choices.split(",")
    else:
        parts = [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    tails = expand(pattern[found.end() :])
    return [pattern[: found.start()] + part + tail for part in parts for tail in tails]
