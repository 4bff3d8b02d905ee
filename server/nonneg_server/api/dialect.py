"""One record for each API: its routes, its paths, the body of its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.routing import BaseRoute

from nonneg_core.errors import NonnegError

ErrorBody = Callable[[NonnegError, str], Mapping[str, Any]]  # of an error and the request's id


@dataclass(frozen=True, eq=False)
class Dialect:
    """An API. Each route itself declares whether it embeds and whether it is open without a key."""

    name: str
    prefixes: tuple[str, ...]  # of its paths, those that do not exist included
    error_body: ErrorBody
    failure: Any  # the type of that body
    routes: tuple[BaseRoute, ...]
