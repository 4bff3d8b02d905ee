"""The search for groups: once, told of, and not waited for when the server ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from nonneg_server.studio.grouping import Grouping

pytestmark = pytest.mark.anyio
Tell = Callable[[int, int | None], None]


async def test_who_asks_meanwhile_waits_for_the_same_search_and_sees_how_far_it_is() -> None:
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
    asked = [asyncio.ensure_future(grouping.sections()) for _ in range(2)]
    await asyncio.to_thread(told.wait)
    assert grouping.progress() == {"found": False, "done": 3, "of": 10}
    go_on.set()
    assert await asyncio.gather(*asked, grouping.sections()) == 3 * [[{"part": "exact"}]]
    assert calls == 1
    assert grouping.progress()["found"]


async def test_a_search_that_failed_is_begun_again() -> None:
    answers: list[Any] = [ValueError("once"), [{"part": "exact"}]]

    def find(_: Tell) -> list[dict[str, Any]]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    grouping = Grouping(find)
    with pytest.raises(ValueError, match="once"):
        await grouping.sections()
    assert await grouping.sections() == [{"part": "exact"}]


def test_a_server_ends_while_groups_are_sought() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def find(_: Tell) -> list[dict[str, Any]]:
        begun.set()
        go_on.wait()
        return []

    async def leave() -> None:
        asking = asyncio.ensure_future(Grouping(find).sections())
        await asyncio.to_thread(begun.wait)
        asking.cancel()

    ended = threading.Thread(target=lambda: asyncio.run(leave()), daemon=True)
    ended.start()
    ended.join(60)
    try:
        assert not ended.is_alive()
    finally:
        go_on.set()
