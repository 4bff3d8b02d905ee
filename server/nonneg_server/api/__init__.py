"""The APIs that this server speaks, a folder for each: a new one is its folder, and its line here."""

from __future__ import annotations

from nonneg_server.api.cohere.routes import COHERE
from nonneg_server.api.dialect import Dialect
from nonneg_server.api.kserve.routes import KSERVE
from nonneg_server.api.native.routes import NATIVE
from nonneg_server.api.openai.routes import OPENAI
from nonneg_server.api.studio.routes import STUDIO
from nonneg_server.api.tei.routes import TEI

__all__ = ["DIALECTS", "dialect_of"]

DIALECTS: tuple[Dialect, ...] = (NATIVE, OPENAI, COHERE, KSERVE, TEI, STUDIO)


def dialect_of(path: str) -> Dialect:
    """Return the dialect of a path, known or not: the one with the longest prefix of it."""
    found = [(len(prefix), dialect) for dialect in DIALECTS for prefix in dialect.prefixes if _begins(path, prefix)]
    return max(found, key=lambda pair: pair[0])[1]


def _begins(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/") or not prefix


def __dir__() -> list[str]:
    return sorted(__all__)
