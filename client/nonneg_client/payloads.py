"""Payloads stored beside vectors, and the check that there is one for each vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from nonneg_client.embeddings import Embeddings
from nonneg_core.errors import ConfigInvalid, DataInvalid

Payloads: TypeAlias = Sequence[Mapping[str, Any]]


def checked_ids(embeddings: Embeddings, payloads: Payloads | None = None) -> tuple[str, ...]:
    """Return the vectors' ids; refuse vectors without any, and payloads that do not go with them."""
    if embeddings.ids is None:
        raise DataInvalid("vectors without ids cannot be found again", fix="embeddings.named([...])")
    if payloads is not None and len(payloads) != len(embeddings):
        raise DataInvalid(f"{len(payloads)} payloads for {len(embeddings)} vectors", fix="give one a vector")
    if any("id" in payload for payload in payloads or ()):
        raise ConfigInvalid("a payload may not have the field id", fix="name it otherwise", field="id")
    return embeddings.ids
