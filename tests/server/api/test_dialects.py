"""What all dialects share, against a real server process."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from nonneg_server.api import DIALECTS, dialect_of


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"model": "tiny", "input": ["data:image/png;base64,AAAA"]}),
        ("/v2/embed", {"model": "tiny", "images": ["AAAA"], "embedding_types": ["base64", "int8"]}),
        ("/v2/models/tiny/infer", {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": ["?"]}]}),
    ],
)
def test_even_when_every_image_is_bad_each_has_its_error(served: str, path: str, body: dict[str, Any]) -> None:
    asked = {"errors": "item"}
    whole = {**body, "parameters": asked} if "infer" in path else {**body, **asked}
    assert httpx.post(served + path, json=body).status_code in (415, 422)
    answer = httpx.post(served + path, json=whole)
    assert answer.status_code == 200, answer.text
    assert "base64" in answer.text or "not an image of a known format" in answer.text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/nothing", "native"),
        ("/v10", "native"),
        ("/healthy", "native"),
        ("/v1/nothing", "openai"),
        ("/v1/models/nothing", "openai"),
        ("/v2/embed", "cohere"),
        ("/v2/embeds", "kserve"),
        ("/v2/models/nothing", "kserve"),
        ("/info", "tei"),
    ],
)
def test_an_error_has_the_shape_of_its_paths_dialect(served: str, path: str, name: str) -> None:
    answer = httpx.delete(served + path) if path in ("/info", "/v2/embed") else httpx.get(served + path)
    (dialect,) = (one for one in DIALECTS if one.name == name)
    assert dialect_of(path) is dialect
    assert answer.status_code in (404, 405)
    TypeAdapter(dialect.failure).validate_python(answer.json())
