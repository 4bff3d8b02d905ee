"""Valid requests of every route, damaged at random: refused in the dialect's words, or answered; never a 500."""

from __future__ import annotations

import base64
import io
import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.anyio
JSON = {"content-type": "application/json"}
Request = tuple[str, bytes, dict[str, str]]
TOKENS = [
    b"null", b"-1", b"1e999", b"9" * 40, b"[]", b"{}", b'""', b"true", b"\0", b"\xff\xfe", b'"\\ud800"', b"[[[[[[[[",
    b"NaN", b"0.1", b'"a"', b"%00", b"\r\n", b"--edge", b"('", b"'",
]  # fmt: skip
QUERIES = ["", "?dimensions=8", "?top_k=3&format=dense", "?encoding=binary", "?errors=fail", "?x=%ff", "?normalize=no"]
ACCEPTED = ["*/*", "application/msgpack", "application/x-npy", "application/vnd.apache.arrow.stream", ";q="]


LEAKS = re.compile(
    r"0x[0-9a-f]{6,}|/(usr|home|root|tmp|opt)/|site-packages|\.py\b|Errno|Traceback|object at|BytesIO|orjson|"
    r"httpx|IDNA|binascii|codec|[Uu]nexpected char|padding|base64-encoded|pickle|magic string|mmap|literal"
)  # an address in memory, a path, or words of what reads JSON, base64, URLs and .npy


def saved(kind: str, **options: Any) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (12, 14, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


IMAGES = [saved("PNG"), saved("JPEG"), saved("JPEG", progressive=True), saved("GIF"), saved("BMP"), saved("TIFF"),
          saved("TIFF", compression="tiff_lzw"), saved("WEBP"), saved("AVIF")]  # fmt: skip


def of_json(path: str, body: dict[str, Any]) -> Request:
    return path, json.dumps(body).encode(), JSON


def as_form(images: list[bytes]) -> Request:
    head = b'--edge\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
    last = b'--edge\r\nContent-Disposition: form-data; name="dimensions"\r\n\r\n8\r\n--edge--\r\n'
    body = b"".join(head + image + b"\r\n" for image in images) + last
    return "/embed", body, {"content-type": "multipart/form-data; boundary=edge"}


def as_tensor(image: bytes) -> Request:
    tail = struct.pack("<I", len(image)) + image
    tensor = {"name": "image", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(tail)}}
    outputs = [{"name": "embedding", "parameters": {"binary_data": True}}, {"name": "error"}]
    head = json.dumps({"inputs": [tensor], "outputs": outputs, "parameters": {"errors": "item"}}).encode()
    return "/v2/models/tiny/infer", head + tail, {"inference-header-content-length": str(len(head))}


def as_npy() -> Request:
    buffer = io.BytesIO()
    np.save(buffer, np.random.default_rng(0).random((3, 8), np.float32))
    return "/shorten", buffer.getvalue(), {"content-type": "application/x-npy"}


def valid(dice: random.Random) -> Request:
    """A request that would be answered."""
    image = dice.choice(IMAGES)
    text = base64.b64encode(image).decode()
    uri = f"data:image/png;base64,{text}"
    part = {"type": "image_url", "image_url": {"url": uri}}
    pixels = {"name": "pixels", "shape": [1, 1, 2, 3], "datatype": "UINT8", "data": [[[[1, 2, 3], [4, 5, 6]]]]}
    makers: list[Callable[[], Request]] = [
        lambda: ("/embed", image, {"content-type": "image/*"}),
        lambda: as_form([image, IMAGES[0]]),
        lambda: of_json("/embed", {"images": [text, {"image_url": {"url": uri}}], "dimensions": [8, 3], "top_k": 2}),
        lambda: of_json("/v1/embeddings", {"model": "tiny", "input": [uri], "encoding_format": "base64"}),
        lambda: of_json("/v1/embeddings", {"model": "tiny", "messages": [{"role": "user", "content": [part]}]}),
        lambda: of_json("/embed", {"inputs": [text, uri], "dimensions": 8, "truncate": True}),
        lambda: of_json("/embed_sparse", {"inputs": uri, "normalize": False}),
        lambda: of_json("/v2/embed", {"model": "tiny", "images": [uri], "embedding_types": ["int8"], "errors": "item"}),
        lambda: of_json("/v2/embed", {"model": "tiny", "inputs": [{"content": [{"type": "image_url", "url": uri}]}]}),
        lambda: of_json("/v2/models/tiny/infer", {"inputs": [pixels], "parameters": {"top_k": 3}}),
        lambda: as_tensor(image),
        lambda: of_json("/shorten", {"vectors": [{"indices": [0, 3], "values": [0.5, 0.25]}], "width": 10}),
        lambda: of_json("/shorten", {"vectors": [[0.1, 0.2, 0], [0, 0, 0]], "dimensions": [2, 3]}),
        as_npy,
        lambda: of_json("/explain", {"images": [text, text], "limit": 3, "dimensions": 20}),
    ]
    return dice.choice(makers)()


def damaged(body: bytes, dice: random.Random) -> bytes:
    found = bytearray(body)
    for _ in range(dice.choice([1, 1, 1, 2, 3, 8])):
        at = dice.randrange(len(found) + 1)
        way = dice.randrange(6)
        if way == 0:
            found[at : at + 1] = bytes([dice.randrange(256)])
        elif way == 1:
            del found[at : at + dice.randrange(1, 20)]
        elif way == 2:
            found[at:at] = dice.choice(TOKENS)
        elif way == 3:
            found[at : at + dice.randrange(1, 8)] = dice.choice(TOKENS)
        elif way == 4:
            found[at:at] = found[dice.randrange(len(found) + 1) :][: dice.randrange(40)]
        else:
            del found[dice.randrange(len(found) + 1) :]
    return bytes(found)


@pytest.mark.filterwarnings("ignore")  # of the image decoders, about what is broken
@pytest.mark.parametrize(("count", "seed"), [(1500, 0), pytest.param(5_000, 1, marks=pytest.mark.slow)])
async def test_no_damage_to_a_body_is_the_servers_failure(client: httpx.AsyncClient, count: int, seed: int) -> None:
    dice = random.Random(seed)
    seen: set[tuple[str, int]] = set()
    for _ in range(count):
        path, body, headers = valid(dice)
        query = dice.choice(QUERIES) if path in ("/embed", "/shorten") else ""
        sent = damaged(body, dice)
        answer = await client.post(path + query, content=sent, headers={**headers, "accept": dice.choice(ACCEPTED)})
        assert answer.status_code < 500, (path + query, headers, sent)
        if answer.status_code != 200:
            said = answer.json()
            assert said.get("error") or said.get("message")
            assert not LEAKS.search(answer.text), answer.text
        seen.add((path, answer.status_code))
    assert len({path for path, status in seen if status == 200}) >= 5, "damage so great that nothing is left to read"
