"""JSON bodies with one value replaced, a field more or less, a key twice, many keys, or lists within lists."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

PARAMETERS = ("dimensions", "top_k", "normalize", "format", "encoding", "errors", "model", "limit", "where", "truncate")


def lists(depth: int) -> Any:
    found: Any = 0
    for _ in range(depth):
        found = [found]
    return found


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**64, 1e308, 0.1, "", "x", "a" * 5000, "\0", "\ud800", "float16", "base64",
    "sparse", "http://127.0.0.1/", "http://xn--/", "data:image/png;base64,", "file:///etc/passwd", [], {}, [[]], [None],
    {"a": 1}, [1] * 3000, [2**63] * 100, [""] * 3000, lists(31), lists(33), lists(500),
)  # fmt: skip


def changed_json(body: bytes, chance: random.Random) -> bytes:
    """The body with one of these changes; what only a text can say, with another besides."""
    text = json.dumps(_replaced(json.loads(body), chance))
    if chance.random() < 0.25:
        text = _with_more(text, chance)
    return text.encode("utf-8", "surrogatepass")


def _replaced(value: Any, chance: random.Random) -> Any:
    """One value somewhere inside, replaced by something else; or a field more, or less."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        if chance.random() < 0.15:
            del value[key]
        elif chance.random() < 0.15:
            value[chance.choice(PARAMETERS)] = chance.choice(VALUES)
        else:
            value[key] = _replaced(value[key], chance)
        return value
    if isinstance(value, list) and value and chance.random() < 0.7:
        at = chance.randrange(len(value))
        value[at] = _replaced(value[at], chance)
        return value
    return chance.choice(VALUES)


def _with_more(text: str, chance: random.Random) -> str:
    """Behind the beginning of some object: a key that it has already, thousands of them, or one of deep lists."""
    places = [found.end() for found in re.finditer(r"\{", text)]
    if not places:
        return text
    place = chance.choice(places)
    keys = re.findall(r'"(\w{1,20})":', text) or list(PARAMETERS)
    way = chance.randrange(4)
    if way == 0:
        more = f'"{chance.choice(keys)}": 1,'
    elif way == 1:
        more = "".join(f'"{n}": 1,' for n in range(chance.choice((2, 63, 65, 20_000))))
    elif way == 2:
        depth = chance.choice((30, 32, 1_000, 2_000))
        more = f'"{chance.choice(keys)}": {"[" * depth}{"]" * depth},'
    else:
        depth = chance.choice((30, 32, 1_000))
        more = f'"{chance.choice(keys)}": ' + '{"url": ' * depth + '"\\u003a"' + "}" * depth + ","
    return text[:place] + more + text[place:]
