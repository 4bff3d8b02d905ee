"""TEI's requests and answers."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from nonneg_server.api.openapi import FINGERPRINT, shape


@shape
class TeiInfo(TypedDict):
    model_id: str
    model_sha: str
    model_dtype: str
    model_type: dict[str, Any]
    served_model_name: str
    embedding_size: int
    max_client_batch_size: int
    max_concurrent_requests: int
    tokenization_workers: int
    payload_limit: int
    version: str


INFO: TeiInfo = {
    "model_id": "nonneg-lite0",
    "model_sha": FINGERPRINT,
    "model_dtype": "float32",
    "model_type": {"embedding": {"pooling": "model"}},
    "served_model_name": "nonneg-lite0",
    "embedding_size": 1280,
    "max_client_batch_size": 256,
    "max_concurrent_requests": 512,
    "tokenization_workers": 2,
    "payload_limit": 67108864,
    "version": "0.1.0",
}
