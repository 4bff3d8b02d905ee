"""The search for groups: once, told of, and no answer waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from nonneg_server.studio.folder import Grouping

Tell = Callable[[int, int | None], None]
FAR = {"found": False, "done": 3, "of": 10}


def ended() -> None:
    """Wait until the thread of the search has ended."""
    for thread in threading.enumerate():
        if thread.name == "groups":
            thread.join(60)


def test_who_asks_is_answered_at_once_how_far_the_one_search_is_and_later_what_it_found() -> None:
    calls, told, go_on = 0, threading.Event(), threading.Event()

    def find(tell: Tell) -> list[dict[str, Any]]:
        nonlocal calls
        calls += 1
        tell(3, 10)
        told.set()
        go_on.wait()
        return [{"part": "exact"}]

    grouping = Grouping(find)
    assert grouping.progress() == {"found": False, "done": 0, "of": 0}
    assert grouping.sections()["sections"] == []
    told.wait()
    assert grouping.sections() == {**FAR, "sections": []}
    assert grouping.progress() == FAR
    go_on.set()
    ended()
    assert grouping.sections() == {**FAR, "found": True, "sections": [{"part": "exact"}]}
    assert calls == 1


def test_a_search_that_failed_is_told_once_and_begun_again() -> None:
    answers: list[Any] = [ValueError("once"), [{"part": "exact"}]]
    go_on = threading.Event()

    def find(_: Tell) -> list[dict[str, Any]]:
        go_on.wait()
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    grouping = Grouping(find)
    grouping.sections()
    go_on.set()
    ended()
    with pytest.raises(ValueError, match="once"):
        grouping.sections()
    grouping.sections()
    ended()
    assert grouping.sections()["sections"] == [{"part": "exact"}]


def test_a_program_ends_while_groups_are_sought() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def find(_: Tell) -> list[dict[str, Any]]:
        begun.set()
        go_on.wait()
        return []

    Grouping(find).sections()
    begun.wait()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "groups")
    assert thread.daemon
    go_on.set()
