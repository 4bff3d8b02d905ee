"""What is known of images besides their pixels, from a CSV file, and conditions on it: `price<30`, `folder!=cup`.

The column `path` (within the root of the images, or absolute) or `id` says which image a line is about. Every other
column has one kind, that which all of its filled cells have; an empty cell is not there. A date like 2024-05-31 is kept
as seconds since 1970 (UTC), as `changed` is, so that ranges of them can be asked for.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.csv_table import read_table
from nonneg_core.files.image_files import identity
from nonneg_vectors.search.vector_engine import Payload, Where

OURS = ("id", "folder", "bytes", "changed")  # what every image has anyway
_NAME = re.compile(r"[^\W\d][\w-]*")


@dataclass(frozen=True)
class Attributes:
    """What is said about images: the kind of each field, and the fields of each id."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    file: str = ""
    doubts: tuple[str, ...] = ()  # columns that one cell made text

    def unmatched(self, ids: Container[str]) -> str:
        """Return what to say where lines are about images that none of the ids names; nothing if all are named."""
        lost = [name for name in self.payloads if name not in ids]
        if not lost:
            return ""
        some = f"{len(lost)} of {len(self.payloads)} lines are" if len(self.payloads) > 1 else "its line is"
        return f"{self.file}: {some} about images that are not in the index (the first is {lost[0]})"


def read_attributes(path: Path, root: Path) -> Attributes:
    """Return what each line says, by the id of its image."""
    header, rows = read_table(path)
    key = next((name for name in ("path", "id") if name in header), None)
    if key is None:
        raise DataInvalid(f"{path} has no column path", fix="begin it with a line like path,price,brand")
    for name in header:
        if name != key and (name in OURS or not _NAME.fullmatch(name)):
            raise DataInvalid(
                f"{path}: a column cannot be called {name!r}", fix="use letters, digits, _ and -, and another name"
            )
    kinds = {name: _kind([row[name] for row in rows]) for name in header if name != key}
    payloads = {}
    for row in rows:
        name = _id(row[key], root) if key == "path" else row[key]
        payloads[name] = {column: KINDS[kind](row[column]) for column, kind in kinds.items() if row[column]}
    doubts = [_doubt(name, [row[name] for row in rows]) for name, kind in kinds.items() if kind == "text"]
    return Attributes(kinds, payloads, str(path), tuple(f"{path}, {doubt}" for doubt in doubts if doubt))


def seconds_of(text: str) -> int | None:
    """Return a date, or a date and time, as seconds since 1970 (UTC where it does not say); None for other text."""
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _id(written: str, root: Path) -> str:
    return identity(Path(os.path.normpath(root / written)), root)


def _kind(cells: Sequence[str]) -> str:
    """Return the narrowest kind that fits every filled cell of a column."""
    filled = [cell for cell in cells if cell]
    fitting = (kind for kind, read in KINDS.items() if filled and all(read(cell) is not None for cell in filled))
    return next(fitting, "text")


def _doubt(column: str, cells: Sequence[str]) -> str:
    """Return what to say where all but a few cells of a column of text have a narrower kind; nothing elsewhere."""
    filled = sum(map(bool, cells))
    for kind, read in KINDS.items():
        odd = [line for line, cell in enumerate(cells) if cell and read(cell) is None]
        if 0 < len(odd) <= max(1, filled // MOST_ODD) and filled > 2:
            others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            return (
                f"line {odd[0] + 2}{others}: {column}={cells[odd[0]]!r} is not a {kind} as the other cells are, and "
                "makes the whole column text: correct the cell, or leave it empty"
            )
    return ""


def number_of(text: str) -> int | float | None:
    """Return a number, whole if it is written so; None for other text."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) < 2**63 else None  # nor what is not a number
    return None


def truth_of(text: str) -> bool | None:
    """Return true or false; None for other text."""
    return {"true": True, "false": False}.get(text.lower())


KINDS: Mapping[str, Callable[[str], Any]] = {
    "truth": truth_of,
    "number": number_of,
    "date": seconds_of,
    "text": str,
}


# Conditions as they are typed, `price<30` or `folder!=cup`: read, checked against a payload, and explained.
#
# The engines filter by themselves; `holds` says the same for one payload, slowly, and is what they are tested
# against.

_CONDITION = re.compile(r"\s*([^\s!<>=]+)\s*(==|!=|>=|<=|=|>|<)\s*(.*?)\s*")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_BOUNDS = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}
_EXAMPLES = {"number": "<30", "date": ">=2024-05-31", "truth": "=true", "text": "=..."}
OWN = {
    "folder": "text", "id": "text", "changed": "date", "taken": "date", "camera": "text", "orientation": "text",
}  # fmt: skip  # the kinds of fields that images have unasked
MOST_ODD = 50  # one cell in so many may be odd and is named
DAY = 24 * 3600  # seconds
SHOWN = 12  # values of a field in a message


def read_conditions(texts: Iterable[str], fields: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read folder=cats, folder=cats,dogs, folder!=cats, year>=2001, day<2024-05-31: all must hold.

    fields: the kind of those that were declared; another's value is a number or a date if it looks like one.
    """
    conditions: dict[str, Any] = {}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or not match[3]:
            raise ConfigInvalid(
                f"{text!r} is not a condition", fix="write folder=cats, folder!=cats, price<30 or day>=2024-05-31"
            )
        name, sign, value = match.groups()
        kind = {**OWN, **(fields or {})}.get(name)
        values = [_typed(part.strip(), kind, name) for part in value.split(",")]
        _add(conditions, name, sign, values, text)
    return conditions


def _add(conditions: dict[str, Any], name: str, sign: str, values: list[_Typed], text: str) -> None:
    before = conditions.get(name)
    if sign in ("=", "=="):
        if before is not None:
            raise ConfigInvalid(
                f"{name} is asked for twice", fix=f"write {name}=A,B for one of several values", field=name
            )
        conditions[name] = values[0].equal() if len(values) == 1 else [value.equal() for value in values]
        return
    if before is not None and not isinstance(before, dict):
        raise ConfigInvalid(f"{text} has no meaning beside {name}=...", fix="leave one of them out", field=name)
    condition = conditions.setdefault(name, {})
    if sign == "!=":
        condition["not"] = [*condition.get("not", []), *(value.equal() for value in values)]
        return
    if len(values) > 1 or isinstance(values[0].value, (str, bool)):
        raise ConfigInvalid(f"{text}: this is not one number or date", fix=f"write {name}=... for text", field=name)
    bound, limit = values[0].bound(sign)
    if bound in condition:
        raise ConfigInvalid(f"{name}{sign} is given twice", fix="leave one of them out", field=name)
    condition[bound] = limit


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
        value = KINDS[candidate](text) if candidate != "date" else _date(text)
        if value is not None:
            return value
    raise ConfigInvalid(
        f"{name} is a {kind}, {text!r} is not", fix=f"write {name}{_EXAMPLES[kind or 'text']}", field=name, value=text
    )


def _date(text: str) -> int | float | None:
    """Return a date in seconds; seconds themselves are taken, too."""
    seconds = seconds_of(text)
    return number_of(text) if seconds is None else seconds


def holds(payload: Payload, where: Where) -> bool:
    """Return whether a payload fulfils all conditions."""
    return all(_holds(payload.get(name), condition) for name, condition in where.items())


def _holds(value: Any, condition: Any) -> bool:
    if isinstance(value, list):  # of several values one is enough, and none may be what must not be
        unwanted = condition.get("not") if isinstance(condition, Mapping) else None
        if unwanted is not None:
            return not any(_holds(one, other) for one in value for other in unwanted)
        return any(_holds(one, condition) for one in value)
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
    counts = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return f"values of {name}: {', '.join(f'{value} ({n})' for value, n in counts[:SHOWN])}{more}"
