"""A point of Qdrant: the id made from a name, the payload with its booleans, the conditions on it."""

from __future__ import annotations

import uuid
from typing import Any

from nonneg_client.search.connectors.engine import Payload, Where, split_condition

NAME = "nonneg"  # of the vector inside a point
_NAMESPACE = uuid.UUID("7f0c2a4e-6d0b-5c56-9d5f-1f2a8c3b9e10")  # point ids are UUIDs: made from the names in here
# The bindings read True as 1, so that a condition on a boolean finds nothing: they are stored as these words.
_WORDS = {True: "\N{WHITE HEAVY CHECK MARK}true", False: "\N{CROSS MARK}false"}
_BOOLEANS = {word: value for value, word in _WORDS.items()}


def point_id(name: str) -> str:
    """Return the UUID under which a name is stored."""
    return str(uuid.uuid5(_NAMESPACE, name))


def name_and_payload(payload: Any) -> tuple[str, Payload]:
    """Return the name and the caller's own payload of a stored point."""
    rest: dict[str, Any] = {k: _BOOLEANS.get(v, v) if isinstance(v, str) else v for k, v in payload.items()}
    return str(rest.pop("id")), rest


def encode_payload(payload: Payload) -> dict[str, Any]:
    """Return the payload as it is stored, without the name."""
    return {name: _WORDS[value] if isinstance(value, bool) else value for name, value in payload.items()}


def filter_of(q: Any, where: Where | None) -> Any:
    """Return conditions as Qdrant has them; `q` is the module of its bindings."""
    if not where:
        return None
    must, must_not = [], []
    for name, wanted in where.items():
        if isinstance(wanted, dict):
            bounds, unwanted = split_condition(wanted)
            must += [q.FieldCondition(name, range=q.RangeFloat(**bounds))] if bounds else []
            must_not += [_condition(q, name, value) for value in unwanted]
        else:
            must.append(_condition(q, name, wanted))
    return q.Filter(must=must, must_not=must_not)


def as_float(value: Any) -> Any:
    """Return a whole number as one that other numbers may equal: a match of integers finds integers alone."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _condition(q: Any, name: str, wanted: Any) -> Any:
    if isinstance(wanted, (list, tuple)):
        if any(isinstance(value, (float, dict)) for value in wanted):
            return q.Filter(should=[_condition(q, name, as_float(value)) for value in wanted])
        words = [_WORDS[value] if isinstance(value, bool) else value for value in wanted]
        return q.FieldCondition(name, match=q.MatchAny(words))
    if isinstance(wanted, dict):
        return q.FieldCondition(name, range=q.RangeFloat(**split_condition(wanted)[0]))
    if isinstance(wanted, float):
        return q.FieldCondition(name, range=q.RangeFloat(gte=wanted, lte=wanted))
    return q.FieldCondition(name, match=q.MatchValue(_WORDS[wanted] if isinstance(wanted, bool) else wanted))
