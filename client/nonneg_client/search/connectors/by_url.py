"""Engines by name and address, as `nonneg index --engine` opens them; the connection is closed with the context."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from nonneg_client.search.connectors.engine import Description, Engine
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, NonnegError
from nonneg_core.installing import needing

KEY = "NONNEG_ENGINE_KEY"  # of a Qdrant or Milvus server that wants one


@contextmanager
def opened(engine: str, url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    """Open the table, collection or index of this name; it is made for these vectors if it does not exist."""
    try:
        with OPENERS[engine](url, name, made_for) as found:
            yield found
    except NonnegError:
        raise
    except Exception as error:  # each client has errors of its own
        if type(error).__module__.partition(".")[0] in ("psycopg", "qdrant_client", "pymilvus", "httpx", "grpc"):
            raise ConnectionFailed(
                f"the engine {engine} at {_without_password(url)} failed ({type(error).__name__}: {error})",
                fix="check its address and its log, and give the same command again: it goes on",
            ) from error
        raise


@contextmanager
def _pgvector(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    from nonneg_client.search.connectors.pgvector import PgvectorEngine

    with _client("psycopg").connect(url, autocommit=True) as connection:
        yield PgvectorEngine(connection, name, made_for)


@contextmanager
def _qdrant(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    module = _client("qdrant_client", "qdrant-client")
    from nonneg_client.search.connectors.qdrant import QdrantEngine

    client = module.QdrantClient(url=url, api_key=os.environ.get(KEY))
    try:
        yield QdrantEngine(client, name, made_for)
    finally:
        client.close()


@contextmanager
def _milvus(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    module = _client("pymilvus")
    from nonneg_client.search.connectors.milvus import MilvusEngine

    client = module.MilvusClient(url, token=os.environ.get(KEY, ""))
    try:
        yield MilvusEngine(client, name, made_for)
    finally:
        client.close()


@contextmanager
def _opensearch(url: str, name: str, made_for: Description | None) -> Iterator[Engine]:
    import httpx

    from nonneg_client.search.connectors.opensearch import OpenSearchEngine

    with httpx.Client(base_url=url, timeout=60) as http:
        yield OpenSearchEngine(http, name, made_for)


OPENERS: dict[str, Callable[..., Any]] = {
    "qdrant": _qdrant,
    "pgvector": _pgvector,
    "opensearch": _opensearch,
    "milvus": _milvus,
}


def _client(module: str, package: str | None = None) -> Any:
    with needing("this engine", package=package or module):
        return import_module(module)


def check_url(url: str) -> str:
    """Return the address, if it is one."""
    if "://" not in url:
        raise ConfigInvalid(f"{url} is not an address", fix="give one such as postgresql://host/database", field="url")
    return url


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
