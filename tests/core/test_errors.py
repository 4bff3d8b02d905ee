"""The error tree: what is drawn is what exists, and an error survives its travels."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from nonneg_core import errors
from nonneg_core.errors import BY_TYPE, NonnegError

DRAWN = re.findall(r"^[│├└─ ]*([A-Z]\w+) +(\d{3}|-) +(\w+)", errors.__doc__, re.MULTILINE)


def test_the_drawing_shows_every_error_and_no_other():
    assert {name for name, _, _ in DRAWN} == {kind.__name__ for kind in BY_TYPE.values()}
    assert len(DRAWN) == len(BY_TYPE)


@pytest.mark.parametrize(("name", "status", "kind"), DRAWN)
def test_each_has_the_type_and_status_that_are_drawn(name, status, kind):
    error = getattr(errors, name)
    assert BY_TYPE[kind] is error
    assert status == "-" or error.status == int(status)


def test_each_stands_under_the_parent_it_is_drawn_under():
    parents: list[tuple[int, type]] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"^([│├└─ ]*)([A-Z]\w+) +(?:\d{3}|-) ", line)
        if not found:
            continue
        depth, kind = len(found[1]), getattr(errors, found[2])
        while parents and parents[-1][0] >= depth:
            parents.pop()
        assert kind.__bases__[0] is (parents[-1][1] if parents else Exception)
        parents.append((depth, kind))


@pytest.mark.parametrize("kind", BY_TYPE.values(), ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_and_copying(kind):
    error = kind("what", fix="how", field="dimensions", value=900, limit=512, retry_after=1.5)
    error.request_id = "abc"
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert twin.__dict__ == error.__dict__
        assert str(twin) == "what: how"


def test_the_body_names_type_message_and_fix():
    body = errors.ParameterInvalid("too long", fix="shorter", field="dimensions", value=9, limit=4).body()
    assert body == {
        "type": "parameter_invalid", "message": "too long", "field": "dimensions", "value": 9, "limit": 4,
        "fix": "shorter",
    }  # fmt: skip


def test_catching_the_root_catches_all():
    assert all(issubclass(kind, NonnegError) for kind in BY_TYPE.values())
