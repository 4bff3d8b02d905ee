"""Conditions on a payload as SQL: what databases have in common, and SQLite's own words for one value."""

from collections.abc import Callable, Mapping
from typing import Any

from nonneg_vectors.search.vector_engine import SIGNS, Where, split_condition

One = Callable[[str, Any, list[Any]], str]  # SQL for a field and a value or range; adds its arguments to the list


def conditions(where: Where | None, one: One) -> tuple[list[str], list[Any]]:
    """Return clauses that must all hold, and their arguments."""
    clauses: list[str] = []
    given: list[Any] = []
    for name, condition in (where or {}).items():
        if isinstance(condition, Mapping):
            bounds, unwanted = split_condition(condition)
            if bounds:
                clauses.append(one(name, bounds, given))
            clauses += [f"({one(name, value, given)}) IS NOT TRUE" for value in unwanted]
        elif isinstance(condition, (list, tuple)):
            clauses.append(f"({' OR '.join(one(name, value, given) for value in condition)})")
        else:
            clauses.append(one(name, condition, given))
    return clauses, given


def in_sqlite(name: str, condition: Any, given: list[Any]) -> str:
    """Return SQL that says that a field of the column `payload` has this value, or lies in this range."""
    field, kind = field_in_sqlite(name), f"json_type(payload, {_path(name)})"
    if name == "id":
        field, kind = "id", "'text'"
    if isinstance(condition, bool):
        return f"{kind} = '{str(condition).lower()}'"
    if isinstance(condition, str):
        given.append(condition)
        return f"({field} = ? AND {kind} = 'text')"
    bounds = split_condition(condition)[0] if isinstance(condition, Mapping) else {"gte": condition, "lte": condition}
    given += bounds.values()
    return f"({' AND '.join(f'{field} {SIGNS[bound]} ?' for bound in bounds)} AND {kind} IN ('integer', 'real'))"


def field_in_sqlite(name: str) -> str:
    """Return a field of the column `payload`, as a comparison and an index have to name it alike."""
    return f"payload ->> {_path(name)}"


def _path(name: str) -> str:
    quoted = name.replace('"', '\\"').replace("'", "''")
    return f"""'$."{quoted}"'"""
