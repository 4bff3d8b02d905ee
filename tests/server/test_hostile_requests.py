"""Requests made to cost more than they should: each is refused before it does."""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg_core.errors import RequestInvalid
from nonneg_server.http.context import SINGLE
from nonneg_server.requests.bodies import LARGE, json_object, parse_form

pytestmark = pytest.mark.anyio
Paint = Callable[[int], bytes]
JSON = {"content-type": "application/json"}


def form(parts: list[bytes]) -> tuple[bytes, dict[str, str]]:
    body = b"".join(b"--y\r\n" + part + b"\r\n" for part in parts) + b"--y--\r\n"
    return body, {"content-type": "multipart/form-data; boundary=y"}


FILE = b'Content-Disposition: form-data; name="images"; filename="a"\r\n\r\n'


async def test_a_million_empty_files_are_not_gathered(client: httpx.AsyncClient) -> None:
    body, headers = form([FILE] * 300_000)
    tracemalloc.start()
    answer = await client.post("/embed", content=body, headers=headers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "too_many_images")
    assert peak < 4 * len(body)


async def test_more_parameters_than_there_are_are_refused(client: httpx.AsyncClient, png: Paint) -> None:
    parts = [f'Content-Disposition: form-data; name="p{i}"\r\n\r\n1'.encode() for i in range(100)]
    body, headers = form([FILE + png(0), *parts])
    assert (await client.post("/embed", content=body, headers=headers)).status_code == 400


@pytest.mark.parametrize("path", ["/embed", "/shorten", "/v1/embeddings", "/v2/embed", "/v2/models/tiny/infer"])
@pytest.mark.parametrize("piece", ["[]", "{}", "0", '""'])
async def test_json_of_nothing_but_brackets_and_commas_is_refused_unparsed(
    client: httpx.AsyncClient, path: str, piece: str
) -> None:
    body = ('{"images": [' + ",".join([piece] * 4_100_000) + "]}").encode()
    tracemalloc.start()
    answer = await client.post(path, content=body, headers=JSON)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 413
    assert peak < 6 * len(body)


@pytest.mark.parametrize("piece", [b"[]", b"{}"])
async def test_a_million_lists_and_objects_are_too_many_at_once(client: httpx.AsyncClient, piece: bytes) -> None:
    body = b'{"vectors": [' + b",".join([piece] * 1_000_001) + b"]}"
    answer = await client.post("/shorten", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["limit"]) == (413, 1_000_000)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"images": [""] * 300}),
        ("/v1/embeddings", {"model": "tiny", "input": [""] * 300}),
        ("/v2/embed", {"model": "tiny", "images": [""] * 300}),
        ("/v2/embed", {"model": "tiny", "inputs": [{}] * 300}),
        ("/v2/models/tiny/infer", {"inputs": [{"name": "image", "shape": [300], "datatype": "BYTES", "data": []}]}),
        (
            "/v2/models/tiny/infer",
            {"inputs": [{"name": "image", "shape": [1], "datatype": "BYTES", "data": [""] * 300}]},
        ),
        (
            "/v2/models/tiny/infer",
            {"inputs": [{"name": "pixels", "shape": [300, 1, 1, 3], "datatype": "UINT8", "data": [0] * 900}]},
        ),
    ],
)
async def test_the_number_of_images_is_bounded_in_every_dialect(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    answer = await client.post(path, json=body)
    assert answer.status_code == 413
    assert "256" in answer.text


async def test_deep_nesting_is_refused(client: httpx.AsyncClient) -> None:
    deep = "[" * 900 + "0" + "]" * 900
    tensor = f'{{"name": "pixels", "shape": [1,1,1,3], "datatype": "UINT8", "data": {deep}}}'
    for path, body in (
        ("/v2/models/tiny/infer", f'{{"inputs": [{tensor}]}}'),
        ("/embed", f'{{"images": {deep}}}'),
        ("/shorten", f'{{"vectors": {deep}}}'),
        ("/v1/embeddings", f'{{"model": "tiny", "input": {deep}}}'),
    ):
        answer = await client.post(path, content=body.encode(), headers=JSON)
        assert 400 <= answer.status_code < 500, path


NAME = "n" * 20_000_000
IMAGE = {"name": "image", "shape": [1], "datatype": "BYTES", "data": ["A"]}
FIELDS = {
    "/embed": ["images", "dimensions", "model", "inputs", "errors", "none"],
    "/shorten": ["vectors", "width", "fingerprint", "dimensions"],
    "/explain": ["images", "vectors", "limit"],
    "/query": ["expression", "images", "limit"],
    "/v1/embeddings": ["input", "model", "messages", "dimensions"],
    "/v2/embed": ["images", "inputs", "texts", "embedding_types"],
    "/embed_sparse": ["inputs"],
    "/v2/models/tiny/infer": ["id", "inputs", "outputs", "parameters"],
    "/v2/repository/index": ["ready"],
}
DEEP = {
    "lists": "[" * 1_000 + "]" * 1_000,
    "objects": '{"image":' * 1_000 + "1" + "}" * 1_000,
    "lists behind numbers": "[0," * 1_000 + "0" + "]" * 1_000,
    "objects and an escape": '{"url":' * 1_000 + '"\\u003a"' + "}" * 1_000,
    "pairs": '{"a:":' * 1_000 + "1" + "}" * 1_000,
}


async def test_json_may_be_nested_32_deep_and_texts_may_hold_any_brackets(
    client: httpx.AsyncClient, png: Paint
) -> None:
    image = base64.b64encode(png(0)).decode()
    for depth, said in ((31, "unknown"), (32, "deeper"), (900, "deeper")):
        body = f'{{"images": ["{image}"], "unknown": {"[" * depth + "]" * depth}}}'
        answer = await client.post("/embed", content=body.encode(), headers=JSON)
        assert answer.status_code in (400, 422), depth
        assert said in answer.text, depth
    for text in ("[" * 100, '\\"{' * 100, "{]" * 100, "\\\\" * 3 + "[" * 100):
        body = f'{{"vectors": [[1]], "fingerprint": "{text}"}}'
        answer = await client.post("/shorten", content=body.encode(), headers=JSON)
        assert (answer.status_code, answer.json()["error"]["field"]) == (409, "fingerprint"), text


async def test_a_length_of_thousands_of_digits_is_refused_as_one_that_does_not_fit(client: httpx.AsyncClient) -> None:
    for length in ("9" * 5_000, "0" * 5_000, "-1", "1e3", "٣"):
        head = [(b"inference-header-content-length", length.encode())]
        answer = await client.post("/v2/models/tiny/infer", content=b"{}", headers=head)
        assert answer.status_code == 400, length
        assert "does not fit a body" in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"images": [], NAME: 1}),
        ("/embed", {"images": ["A"], "model": NAME}),
        ("/shorten", {"vectors": [[1]], "fingerprint": NAME}),
        ("/shorten", {"vectors": [[1]], "width": NAME}),
        ("/v1/embeddings", {"model": NAME, "input": ["A"]}),
        ("/v1/embeddings", {"model": "tiny", "input": [], NAME: 1}),
        ("/v2/embed", {"model": "tiny", "images": [], NAME: 1}),
        ("/v2/models/tiny/infer", {"inputs": [IMAGE], "parameters": {NAME: 1}}),
        ("/v2/models/tiny/infer", {"inputs": [IMAGE], "outputs": [{"name": NAME}]}),
        ("/query", {"expression": f"dim:{NAME[:4_000]}"}),
        ("/" + NAME[:60_000], {}),
    ],
    ids=lambda given: given[:20] if isinstance(given, str) else "",
)
async def test_an_error_quotes_a_name_as_long_as_the_body_in_part(
    client: httpx.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    sent = json.dumps(body).encode()
    before = time.process_time()
    answer = await client.post(path, content=sent, headers=JSON)
    assert time.process_time() - before < 1  # to look for a name like one of 20 MB took seconds
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < 5_000


async def test_thousands_of_wishes_are_one_error_and_not_thousands(client: httpx.AsyncClient) -> None:
    for body in ({"embedding_types": ["x"] * 200_000}, {f"k{i}": 1 for i in range(65)}):
        before = time.process_time()
        answer = await client.post("/v2/embed", json={"model": "tiny", **body})
        assert time.process_time() - before < 1
        assert answer.status_code == 422
        assert len(answer.text) < 2_000


async def test_a_tensor_of_a_shape_without_end_is_refused_before_it_is_multiplied(client: httpx.AsyncClient) -> None:
    for shape in ([2**63] * 40_000, [""] * 300_000, [2**63] * 8):
        tensor = {"name": "image", "shape": shape, "datatype": "BYTES", "data": []}
        before = time.process_time()
        answer = await client.post("/v2/models/tiny/infer", json={"inputs": [tensor]})
        assert answer.status_code in (413, 422)
        assert time.process_time() - before < 2
        assert len(answer.text) < 2_000


@pytest.mark.parametrize("path", FIELDS)
async def test_no_depth_of_nesting_in_any_field_is_the_servers_failure(client: httpx.AsyncClient, path: str) -> None:
    for field in FIELDS[path]:
        for name, deep in DEEP.items():
            for value in (deep, f"[{deep}]", f'[{{"name": "image", "data": {deep}}}]'):
                answer = await client.post(path, content=f'{{"{field}": {value}}}'.encode(), headers=JSON)
                assert answer.status_code < 500, (field, name)


async def test_objects_inside_objects_are_no_image(client: httpx.AsyncClient) -> None:
    entry: Any = "AAAA"
    for _ in range(500):
        entry = {"image": entry}
    answer = await client.post("/embed", json={"images": [entry]})
    assert 400 <= answer.status_code < 500


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [None, [48] * 32])
async def test_short_rows_that_stand_for_long_vectors_are_bounded(client: httpx.AsyncClient, lengths: Any) -> None:
    rows = ",".join(['{"indices": [], "values": []}'] * (200_000 if lengths is None else 10_000))
    body = f'{{"vectors": [{rows}], "dimensions": {json.dumps(lengths)}}}'
    answer = await client.post("/shorten", content=body.encode(), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["limit"]) == (413, 4_000_000)
    wide = await client.post("/shorten", json={"vectors": [{"indices": [], "values": []}], "width": 10**12})
    assert wide.status_code == 422


async def test_an_npy_that_claims_more_than_it_holds_is_a_bad_request(client: httpx.AsyncClient) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 48), }".ljust(117) + "\n"
    body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(100)
    answer = await client.post("/shorten", content=body, headers={"content-type": "application/x-npy"})
    assert answer.status_code == 400


def npy(header: str, *, version: int = 1) -> bytes:
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header.encode()
    )


async def test_an_archive_is_not_searched_for_arrays(client: httpx.AsyncClient) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for i in range(30_000):
            file.writestr(f"{i}.npy", b"")
    before = time.process_time()
    answer = await client.post("/shorten", content=archive.getvalue(), headers={"content-type": "application/x-npy"})
    assert time.process_time() - before < 0.2
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "body")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"PK\x03\x04",
        b"\x80\x04K\x01.",
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n") + b"\x80\x04]\x94.",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 48)}\n") + bytes(100),
        npy("(" * 9_000 + "\n"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}".ljust(60_000) + "\n", version=2) + bytes(4),
        npy("x" * 65_000),
        b"\x93NUMPY\x09\x00",
    ],
    ids=["nothing", "zip", "pickle", "objects", "cut", "deep", "long header", "no header", "version"],
)
async def test_what_is_not_one_array_of_numbers_is_refused_in_our_own_words(
    client: httpx.AsyncClient, body: bytes
) -> None:
    answer = await client.post("/shorten", content=body, headers={"content-type": "application/x-npy"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "the body is not an .npy of numbers")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", b'{"images": [}'),
        ("/embed", b'{"images": ["\xff"]}'),
        ("/embed", b"{" * 2_000),
        ("/embed", b'{"images": ["A"]}'),
        ("/embed", b'{"images": ["AA=A"]}'),
        ("/embed", b'{"images": ["data:image/png;base64,?"]}'),
        ("/embed", '{"images": ["é"]}'.encode()),
        ("/embed", b'{"images": ["http://a:99999999/"]}'),
        ("/embed", b'{"images": ["http://[::1"]}'),
        ("/embed", b'{"images": ["http://a\\u0000b/"]}'),
        ("/embed", b'{"images": ["http://' + b"a" * 70_000 + b'"]}'),
        ("/v1/embeddings", b'{"model": "tiny", "input": ["data:image/png;base64,?"]}'),
        ("/v2/models/tiny/infer", b"{]"),
    ],
)
async def test_no_refusal_of_a_body_quotes_a_library(client: httpx.AsyncClient, path: str, body: bytes) -> None:
    answer = await client.post(f"{path}?errors=fail" if path == "/embed" else path, content=body, headers=JSON)
    assert 400 <= answer.status_code < 500
    said = answer.json()["error"]
    said = said if isinstance(said, str) else f"{said['message']} {said.get('fix')}"
    assert not QUOTES.search(said), said


QUOTES = re.compile(  # of orjson, binascii, httpx, idna and numpy, and of Python's codecs
    r"0x[0-9a-f]{6,}|expected|padding|data char|codec|[Ii]nvalid|incorrect|recursion|char \d|pickle|too long|magic"
)


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
async def test_a_packed_body_is_not_unpacked(client: httpx.AsyncClient, coding: str) -> None:
    answer = await client.post("/embed", content=b"x", headers={"content-encoding": coding})
    assert (answer.status_code, answer.json()["error"]["field"]) == (415, "content-encoding")


@pytest.mark.parametrize(
    "body",
    [
        '{"images": ["%s"], "dimensions": 5, "dimensions": 6}',
        '{"images": ["%s"], "images": []}',
        '{"images": ["%s"], "dimensions": 5, "d\\u0069mensions": 6}',
        '{"images": ["%s", {"image": "a", "image": "b"}]}',
        '{"images": ["%s"], "top_k": 1, "top_k" : 1}',
    ],
)
async def test_a_json_key_that_is_given_twice_is_refused(client: httpx.AsyncClient, png: Paint, body: str) -> None:
    image = base64.b64encode(png(0)).decode()
    answer = await client.post("/embed", content=body % image, headers={"content-type": "application/json"})
    assert (answer.status_code, "twice" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "count"), [("/embed", 150_000), ("/v1/embeddings", 60_000), ("/v2/models/tiny/infer", 60_000)]
)
async def test_tens_of_thousands_of_keys_are_compared_in_one_pass(
    client: httpx.AsyncClient, path: str, count: int
) -> None:
    body = json.dumps({f"k{i:x}:": ":" for i in range(count)}).encode()
    assert (len(body) > LARGE) == (count == 150_000)
    for sent, status in ((body, 422), (b'{"k1:": 1, ' + body[1:], 400)):
        before = time.process_time()
        answer = await client.post(path, content=sent, headers=JSON)
        assert time.process_time() - before < 2
        assert answer.status_code == status


PIECES = st.sampled_from([
    '{"a": 1}', '{"a":1,"b":[2]}', '{"a":1,"a":2}', '"a"', '":"', '"\\u003a"', '"\\":"', "0", "[1,2]",
    '[0,{"b":1}]', '["a:","b"]', '{"b:":":"}', '{":":0,"\\u003a":0}', '{"a":":","\\u0061":0}', '{"a" :1, "a" : 1}',
])  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["a", "b", ":", "\\u003a", 'c\\"']), PIECES), max_size=6))
def test_a_repeated_key_is_seen_whatever_stands_around_it(pairs: list[tuple[str, str]]) -> None:
    body = "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
    told: list[int] = []
    json.loads(body, object_pairs_hook=lambda given: told.append(len(given) - len(dict(given))))
    if any(told):
        with pytest.raises(RequestInvalid, match="twice"):
            json_object(body.encode())
    else:
        json_object(body.encode())


async def test_a_value_that_reads_like_a_key_is_not_a_key_given_twice(client: httpx.AsyncClient, png: Paint) -> None:
    image = base64.b64encode(png(0)).decode()
    for body in (
        f'{{"images": ["{image}", "images"]}}',
        f'{{"images": [{{"image": "{image}"}}, {{"image": "image"}}]}}',
    ):
        answer = await client.post("/embed", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200, body


async def test_heads_with_thousands_of_entries_are_refused_before_these_are_read(
    client: httpx.AsyncClient, png: Paint
) -> None:
    kind = {"content-type": "image/png"}
    answer = await client.post("/embed", content=png(0), headers={**kind, "accept": "a/b," * 9_000})
    assert (answer.status_code, answer.json()["error"]["limit"]) == (406, 32)
    answer = await client.post("/embed?" + "a=1&" * 9_000, content=png(0), headers=kind)
    assert (answer.status_code, answer.json()["error"]["limit"]) == (422, 64)


async def test_heads_of_a_form_with_more_options_than_any_needs_are_refused_before_these_are_read(
    client: httpx.AsyncClient, png: Paint
) -> None:
    body, headers = form([FILE + png(0)])
    for option, most in (("; a=b", 31), (";", 31)):  # and its boundary
        kind = {"content-type": headers["content-type"] + option * most}
        assert (await client.post("/embed", content=body, headers=kind)).status_code == 200
        kind = {"content-type": headers["content-type"] + option * 9_000}
        answer = await client.post("/embed", content=body, headers=kind)
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "content-type")
        assert answer.json()["error"]["limit"] == 32
    body, headers = form([FILE.replace(b"\r\n", b";" * 3_000 + b"\r\n", 1) + png(0)])
    answer = await client.post("/embed", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "content-disposition")


@pytest.mark.parametrize(
    "head", [FILE.replace(b"\r\n", b"\r\n" + b"A: b\r\n" * 9, 1), FILE.replace(b"a", b"a" * 5_000)]
)
async def test_a_part_whose_head_is_long_is_refused_in_our_own_words(client: httpx.AsyncClient, head: bytes) -> None:
    body, headers = form([head + b"x"])
    answer = await client.post("/embed", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "body")
    assert "exceeded" not in answer.text


async def test_every_content_encoding_is_looked_at(client: httpx.AsyncClient, png: Paint) -> None:
    kind = ("content-type", "image/png")
    two = [kind, ("content-encoding", "identity"), ("content-encoding", "gzip")]
    assert (await client.post("/embed", content=png(0), headers=two)).status_code == 415
    for harmless in ("identity", "Identity", "", "identity, IDENTITY"):
        answer = await client.post("/embed", content=png(0), headers=[kind, ("content-encoding", harmless)])
        assert answer.status_code == 200, harmless


@pytest.mark.parametrize("name", sorted(name.decode() for name in SINGLE))
async def test_a_header_with_two_values_is_refused_on_every_route(client: httpx.AsyncClient, name: str) -> None:
    for method, path in (("POST", "/embed"), ("POST", "/v2/models/tiny/infer"), ("GET", "/models"), ("GET", "/none")):
        answer = await client.request(method, path, headers=[(name, "1"), ("accept", "*/*"), (name, "2")])
        assert answer.status_code == 400, path
        assert name in answer.text, path


async def test_a_header_that_is_given_twice_alike_means_what_it_says(client: httpx.AsyncClient, png: Paint) -> None:
    twice = [("content-type", "image/png"), ("x-request-timeout", "60")] * 2
    assert (await client.post("/embed", content=png(0), headers=twice)).status_code == 200


async def test_wishes_may_stand_in_several_headers(client: httpx.AsyncClient, png: Paint) -> None:
    lines = [("content-type", "image/png"), ("accept", "image/webp"), ("accept", "application/x-npy")]
    answer = await client.post("/embed?format=dense", content=png(0), headers=lines)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-npy")


async def test_huge_numbers_are_refused_as_numbers(client: httpx.AsyncClient, png: Paint) -> None:
    image = base64.b64encode(png(0)).decode()
    for value in ("9" * 30, "9" * 5000, "1e400", "-0", "1.5", "NaN", "0x10", "١"):
        answer = await client.post("/embed", params={"dimensions": value}, content=png(0))
        assert answer.status_code == 422, value
    for text in ("9" * 30, "1e400", "-1", "1.5", "true", '"7"'):
        body = f'{{"images": {json.dumps([image])}, "dimensions": {text}}}'
        assert (await client.post("/embed", content=body.encode(), headers=JSON)).status_code in (400, 422), text


async def test_the_only_image_has_its_error_in_its_place_where_that_is_asked_for(client: httpx.AsyncClient) -> None:
    answer = await client.post("/embed", json={"images": ["AAAA"], "errors": "item"})
    assert answer.status_code == 200
    assert answer.json()["data"][0]["error"]["type"] == "image_unsupported"
    assert (await client.post("/embed", json={"images": ["AAAA"]})).status_code == 415


@settings(max_examples=300, deadline=None)
@given(
    cut=st.integers(0, 400), at=st.integers(0, 399), byte=st.integers(0, 255), boundary=st.sampled_from(["y", "z", ""])
)
def test_a_damaged_form_is_a_bad_request_or_another_form(cut: int, at: int, byte: int, boundary: str) -> None:
    part = b'Content-Disposition: form-data; name="top_k"\r\n\r\n3'
    body = bytearray(form([FILE + b"x" * 40, part, FILE + b"y" * 40])[0])
    if at < len(body):
        body[at] = byte
    try:
        found = parse_form(bytes(body[: max(0, len(body) - cut)]), f"multipart/form-data; boundary={boundary}", 5)
    except RequestInvalid:
        return
    assert len(found.files) == len(found.names) <= 2


@pytest.mark.parametrize(
    ("body", "headers", "field"),
    [
        (b"{", JSON, "body"),
        (b"[]", JSON, "body"),
        (b"x", {"content-type": "multipart/form-data"}, "content-type"),
        (b"x", {"content-type": "multipart/form-data; boundary=y"}, "body"),
        (b"x", {"content-type": "text/csv"}, "content-type"),
        (b"x", {"x-request-timeout": "soon"}, "x-request-timeout"),
        (b"x", {"accept": "image/png"}, "accept"),
        (b"x", {}, "images[0]"),
    ],
)
async def test_what_is_wrong_with_a_request_is_named(
    client: httpx.AsyncClient, body: bytes, headers: dict[str, str], field: str
) -> None:
    answer = await client.post("/embed", content=body, headers=headers)
    error = answer.json()["error"]
    assert (400 <= answer.status_code < 500, error["field"], bool(error["fix"])) == (True, field, True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda large: ("/embed", {"images": [large]}),
        lambda large: ("/embed", {"images": ["data:image/png;base64," + large]}),
        lambda large: ("/v1/embeddings", {"model": "tiny", "input": "data:image/png;base64," + large}),
        lambda large: ("/v2/embed", {"model": "tiny", "images": [large]}),
        lambda large: (
            "/v2/models/tiny/infer",
            {"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": [large]}]},
        ),
    ],
    ids=["bare", "data URI", "OpenAI", "Cohere", "KServe"],
)
async def test_base64_longer_than_an_image_may_be_is_refused_undecoded(client_for: Any, ask: Any) -> None:
    path, body = ask("!" * 4_000)  # no base64: decoding it first would answer 422
    async with client_for(max_image_bytes=2_000) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 413
    assert "max_image_bytes" in answer.text or "--max-image-bytes" in answer.text


async def test_an_image_may_have_as_many_bytes_as_stated_and_no_more(client_for: Any, png: Paint) -> None:
    image = png(0)
    for most, status in ((len(image), 200), (len(image) - 1, 413)):
        async with client_for(max_image_bytes=most) as client:
            raw = await client.post("/embed", content=image, headers={"content-type": "image/png"})
            text = await client.post("/embed", json={"images": [base64.b64encode(image).decode()]})
        assert (raw.status_code, text.status_code) == (status, status)


async def test_an_image_of_too_many_bytes_does_not_fail_the_others(client_for: Any, png: Paint) -> None:
    body, headers = form([FILE + png(0), FILE + png(0) + b" " * 9_000])
    async with client_for(max_image_bytes=len(png(0)) + 100) as client:
        first, second = (await client.post("/embed", content=body, headers=headers)).json()["data"]
    assert first["nnz"] > 0
    assert (second["error"]["type"], second["error"]["limit"]) == ("image_too_large", len(png(0)) + 100)
