"""The APIs that this server speaks, each in files of its name: a new one is its file, and its line here."""

from nonneg_server.api.cohere import COHERE
from nonneg_server.api.kserve_routes import KSERVE
from nonneg_server.api.native_routes import NATIVE
from nonneg_server.api.openai import OPENAI
from nonneg_server.api.route import Dialect
from nonneg_server.api.studio_routes import STUDIO
from nonneg_server.api.tei import TEI

__all__ = ["DIALECTS", "dialect_of"]

DIALECTS: tuple[Dialect, ...] = (NATIVE, OPENAI, COHERE, KSERVE, TEI, STUDIO)


def dialect_of(path: str) -> Dialect:
    """Return the dialect of a path, known or not: the one with the longest prefix of it."""
    matches = [(len(prefix), dialect) for dialect in DIALECTS for prefix in dialect.prefixes if _begins(path, prefix)]
    return max(matches, key=lambda pair: pair[0])[1]


def _begins(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/") or not prefix


def __dir__() -> list[str]:
    return sorted(__all__)
