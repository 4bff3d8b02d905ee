"""The native API: images, stored vectors, models, health, and the pages about them."""

from __future__ import annotations

from nonneg_server.api.dialect import Dialect
from nonneg_server.api.native import docs, embed, explain, health, metrics, models, query, shorten
from nonneg_server.api.native.schemas import ErrorAnswer
from nonneg_server.api.native.translation import error_body

_ROUTERS = [part.router for part in (embed, query, shorten, explain, models, health, metrics, docs)]
NATIVE = Dialect(
    "native", ("",), error_body, ErrorAnswer, tuple(route for router in _ROUTERS for route in router.routes)
)
