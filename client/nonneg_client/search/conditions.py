"""Conditions as they are typed, `price<30` or `folder!=cup`: read, checked against a payload, and explained.

The engines filter by themselves; `holds` says the same for one payload, slowly, and is what they are tested against.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nonneg_client.search.attributes import KINDS, number_of, seconds_of
from nonneg_client.search.connectors.engine import Payload, Where
from nonneg_core.errors import ConfigInvalid

_CONDITION = re.compile(r"\s*([^\s!<>=]+)\s*(==|!=|>=|<=|=|>|<)\s*(.*?)\s*")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_BOUNDS = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}
_EXAMPLES = {"number": "<30", "date": ">=2024-05-31", "truth": "=true", "text": "=..."}
OWN = {"folder": "text", "id": "text", "changed": "date"}  # the kinds of fields that every image has
DAY = 24 * 3600  # seconds
SHOWN = 12  # values of a field in a message


def read_conditions(texts: Iterable[str], fields: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read folder=cats, folder=cats,dogs, folder!=cats, year>=2001, day<2024-05-31: all must hold.

    fields: the kind of those that were declared; another's value is a number or a date if it looks like one.
    """
    found: dict[str, Any] = {}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or not match[3]:
            raise ConfigInvalid(
                f"{text!r} is not a condition", fix="write folder=cats, folder!=cats, price<30 or day>=2024-05-31"
            )
        name, sign, value = match.groups()
        kind = {**OWN, **(fields or {})}.get(name)
        values = [_typed(part.strip(), kind, name) for part in value.split(",")]
        _add(found, name, sign, values, text)
    return found


def _add(found: dict[str, Any], name: str, sign: str, values: list[_Typed], text: str) -> None:
    before = found.get(name)
    if sign in ("=", "=="):
        if before is not None:
            raise ConfigInvalid(
                f"{name} is asked for twice", fix=f"write {name}=A,B for one of several values", field=name
            )
        found[name] = values[0].equal() if len(values) == 1 else [value.equal() for value in values]
        return
    if before is not None and not isinstance(before, dict):
        raise ConfigInvalid(f"{text} has no meaning beside {name}=...", fix="leave one of them out", field=name)
    held = found.setdefault(name, {})
    if sign == "!=":
        held["not"] = [*held.get("not", []), *(value.equal() for value in values)]
        return
    if len(values) > 1 or isinstance(values[0].value, (str, bool)):
        raise ConfigInvalid(f"{text}: this is not one number or date", fix=f"write {name}=... for text", field=name)
    bound, limit = values[0].bound(sign)
    if bound in held:
        raise ConfigInvalid(f"{name}{sign} is given twice", fix="leave one of them out", field=name)
    held[bound] = limit


class _Typed(NamedTuple):
    """One value of a condition."""

    value: str | int | float | bool
    is_day: bool  # a date without a time

    def equal(self) -> Any:
        """Match it; a number as a range, where whole and other numbers are the same; a day is a range."""
        if isinstance(self.value, (str, bool)):
            return self.value
        if self.is_day:
            return {"gte": self.value, "lt": self.value + DAY}
        return {"gte": self.value, "lte": self.value}

    def bound(self, sign: str) -> tuple[str, float]:
        """Return the end of a range: a day as a whole lies within it, or without."""
        assert not isinstance(self.value, str)
        if self.is_day and sign in (">", "<="):
            return ("gte" if sign == ">" else "lt"), self.value + DAY
        return _BOUNDS[sign], self.value


def _typed(text: str, kind: str | None, name: str) -> _Typed:
    value = _value(text, kind, name)
    return _Typed(value, isinstance(value, int) and _DAY.fullmatch(text) is not None)


def _value(text: str, kind: str | None, name: str) -> str | int | float | bool:
    """Return what a typed value is, in a field of this kind, or by its looks."""
    for candidate in [kind] if kind else KINDS:
        found = KINDS[candidate](text) if candidate != "date" else _date(text)
        if found is not None:
            return found
    raise ConfigInvalid(
        f"{name} is a {kind}, {text!r} is not", fix=f"write {name}{_EXAMPLES[kind or 'text']}", field=name, value=text
    )


def _date(text: str) -> int | float | None:
    """Return a date in seconds; seconds themselves are taken, too."""
    found = seconds_of(text)
    return number_of(text) if found is None else found


def holds(payload: Payload, where: Where) -> bool:
    """Return whether a payload fulfils all conditions."""
    return all(_holds(payload.get(name), condition) for name, condition in where.items())


def _holds(value: Any, condition: Any) -> bool:
    if isinstance(condition, Mapping):
        bounds = {name: bound for name, bound in condition.items() if name != "not"}
        if any(_holds(value, other) for other in condition.get("not", ())):
            return False
        if not bounds:
            return True
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        compared = {"gte": value.__ge__, "lte": value.__le__, "gt": value.__gt__, "lt": value.__lt__}
        return all(compared[name](bound) is True for name, bound in bounds.items())
    if isinstance(condition, Sequence) and not isinstance(condition, str):
        return any(_holds(value, other) for other in condition)
    return _same(value, condition)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other if isinstance(other, (bool, str)) else bool(value == other)


def explain_none(payloads: Iterable[Payload], where: Where, kinds: Mapping[str, str] | None = None) -> str:
    """Return why no payload fulfils the conditions; raises where a field is asked for that none has.

    kinds: of the fields that were declared.
    """
    everything = list(payloads)
    fields = sorted({name for payload in everything for name in payload if not name.startswith("_")})
    for name, condition in where.items():
        if re.split(r"[.\[]", name)[0] not in ("id", *fields):
            raise ConfigInvalid(
                f"no image of the index has a field {name}", fix=f"ask for {', '.join(fields)}", field=name
            )
        if name in fields and not any(_holds(payload.get(name), condition) for payload in everything):
            values = [payload[name] for payload in everything if name in payload]
            return f"no image has such a {name}; {_values(name, values, {**OWN, **(kinds or {})}.get(name))}"
    return "no image fulfils all conditions together"


def _values(name: str, values: Sequence[Any], kind: str | None) -> str:
    """Return which values a field has: the commonest of text, the range of numbers and dates."""
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        ends = [min(values), max(values)]
        least, most = (datetime.fromtimestamp(end, UTC).date() for end in ends) if kind == "date" else ends
        return f"{name} is between {least} and {most}"
    counted = Counter(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
    counts = sorted(counted.items(), key=lambda found: (-found[1], found[0]))
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return f"values of {name}: {', '.join(f'{value} ({n})' for value, n in counts[:SHOWN])}{more}"
