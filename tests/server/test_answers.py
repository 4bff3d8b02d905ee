"""Every form of answer against the one reference: nonneg_client.shorten."""

from __future__ import annotations

import base64
import io
import itertools
from typing import Any

import httpx
import numpy as np
import orjson
import ormsgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonneg_core.errors import ImageUnreadable, NotAcceptable, ParameterInvalid
from nonneg_core.shortening import shorten
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.pipeline.answer_forms import as_arrow, as_json, as_msgpack, as_npy, form_for
from nonneg_server.pipeline.request_pipeline import Answer, EncodedBatch, lengths_of
from nonneg_server.pipeline.request_pipeline import shortened as shortened_to
from nonneg_server.requests.parameters import Parameters
from nonneg_vectors.storage.packing import unpack_sparse

WIDTH = 48
TYPES = {"float": "<f4", "base64": "<f4", "float16": "<f2", "int8": "i1"}


def shortened(manifest: Manifest, batch: EncodedBatch, parameters: Parameters) -> Answer:
    lengths = lengths_of(parameters, manifest, batch.vectors.shape[1])
    return shortened_to(manifest, batch, parameters, lengths)


def raw(seed: int = 0, rows: int = 3) -> EncodedBatch:
    """Vectors as an encoder gives them: a quarter active, ties and a zero row among them."""
    rng = np.random.default_rng(seed)
    z = np.maximum(rng.normal(size=(rows, WIDTH)) - 0.7, 0).round(2).astype(np.float32)
    z[-1] = 0
    return EncodedBatch(z, list(range(rows)), {})


def dense(item: dict[str, Any], width: int, encoding: str) -> np.ndarray:
    """A row's vector back from whatever carried it."""

    def numbers(found: Any, dtype: str) -> np.ndarray:
        if isinstance(found, str):
            found = base64.b64decode(found)
        return np.frombuffer(found, dtype) if isinstance(found, bytes) else np.asarray(found, dtype)

    if "packed" in item:
        packed = base64.b64decode(item["packed"]) if isinstance(item["packed"], str) else item["packed"]
        if encoding == "binary":
            assert len(packed) == -(-width // 8)
            return np.unpackbits(np.frombuffer(packed, "u1"), count=width).astype(np.float32)
        indices, values = unpack_sparse(packed, width)
        z = np.zeros(width, np.float32)
        z[indices] = values
        return z
    if "embedding" in item:
        return numbers(item["embedding"], TYPES[encoding]).astype(np.float32) * item.get("scale", 1)
    z = np.zeros(width, np.float32)
    values = numbers(item["values"], TYPES[encoding]).astype(np.float32)
    z[numbers(item["indices"], "<i4")] = values * item.get("scale", 1)
    return z


def set_bits(z: np.ndarray, bundle: Bundle, k: int) -> list[bool]:
    """Which of the first k bits a vector sets; the test's model has one variance, so that columns keep their order."""
    means = bundle.manifest.columns.expected_activation
    length = np.linalg.norm(z) or 1
    return [float(z[j] / length) > means[j] for j in range(k)]


def close(found: np.ndarray, reference: np.ndarray, encoding: str) -> None:
    if encoding == "compact":
        np.testing.assert_allclose(
            found, np.maximum(reference, (reference > 0) * reference.max() / 16), atol=0.033 * reference.max()
        )
    elif encoding == "int8":
        np.testing.assert_allclose(found, reference, atol=reference.max() / 127 + 1e-9)
        np.testing.assert_array_equal(found > 0, reference > 0)
    else:
        np.testing.assert_allclose(found, reference, rtol=1e-3 if encoding == "float16" else 0)


@settings(max_examples=150, deadline=None)
@given(
    lengths=st.one_of(st.none(), st.integers(1, WIDTH), st.lists(st.integers(1, WIDTH), min_size=1, max_size=4)),
    top_k=st.one_of(st.none(), st.integers(1, 60)),
    normalize=st.booleans(),
    shape=st.sampled_from(["sparse", "dense", "both"]),
    encoding=st.sampled_from(["float", "base64", "float16", "int8", "compact"]),
    form=st.sampled_from([as_json, as_msgpack]),
    seed=st.integers(0, 1000),
)
def test_any_combination_equals_the_clients_shorten(
    bundle: Bundle, lengths: Any, top_k: Any, normalize: bool, shape: Any, encoding: Any, form: Any, seed: int
) -> None:  # fmt: skip
    shape = "sparse" if encoding == "compact" else shape
    wanted = Parameters(
        dimensions=lengths, top_k=top_k, normalize=normalize, format=shape, encoding=encoding
    )  # fmt: skip
    vectors = raw(seed)
    written = form.write(shortened(bundle.manifest, vectors, wanted))
    answer = orjson.loads(written) if form is as_json else ormsgpack.unpackb(written)
    asked = lengths if isinstance(lengths, list) else [lengths]
    assert answer["dimensions"] == ([*lengths] if isinstance(lengths, list) else lengths or WIDTH)
    for z, item in zip(vectors.vectors, answer["data"], strict=True):
        items = item["lengths"] if isinstance(lengths, list) else [item]
        for k, found in zip(asked, items, strict=True):
            reference = shorten(z, k, top_k, normalize=normalize)
            close(dense(found, k or WIDTH, encoding), reference, encoding)
            assert found["nnz"] == np.count_nonzero(reference)
            assert found["zero"] == (found["nnz"] == 0)


@pytest.mark.parametrize("form", [as_json, as_msgpack, as_arrow, as_npy])
@pytest.mark.parametrize("dimensions", [None, 20, [48, 9]])
def test_bits_are_of_whole_vectors_and_dimensions_says_how_many(bundle: Bundle, form: Any, dimensions: Any) -> None:
    wanted = Parameters(dimensions=dimensions, encoding="binary")
    if form is as_npy and isinstance(dimensions, list):
        return
    form.check(wanted)
    vectors = EncodedBatch(raw().vectors, [0, 1, 2], {})
    written = form.write(shortened(bundle.manifest, vectors, wanted))
    asked = dimensions if isinstance(dimensions, list) else [dimensions or WIDTH]
    if form is as_npy:
        rows = [{"packed": row.tobytes()} for row in np.load(io.BytesIO(written))]
    elif form is as_arrow:
        rows = pa.ipc.open_stream(written).read_all().to_pylist()
    else:
        answer = orjson.loads(written) if form is as_json else ormsgpack.unpackb(written)
        assert answer["dimensions"] == (dimensions or WIDTH)
        rows = [one for item in answer["data"] for one in item.get("lengths", [item])]
    pairs = [(z, k) for z in vectors.vectors for k in asked]
    for row, (z, k) in zip(rows, pairs, strict=True):
        expected = set_bits(z, bundle, k)
        np.testing.assert_array_equal(dense(row, k, "binary"), expected)
        assert row.get("nnz", sum(expected)) == sum(expected)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"top_k": 5}, "top_k"), ({"dimensions": WIDTH + 1}, "dimensions"), ({"dimensions": [4, 99]}, "dimensions")],
)
def test_bits_of_cut_vectors_and_more_than_there_are_are_refused(
    bundle: Bundle, wanted: dict[str, Any], field: str
) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        shortened(bundle.manifest, raw(), Parameters(encoding="binary", **wanted))
    assert refused.value.field == field
    assert "bits" in str(refused.value.fix)


@pytest.mark.anyio
async def test_stored_vectors_get_bits_by_shorten_where_they_are_whole(
    client: httpx.AsyncClient, bundle: Bundle
) -> None:
    z = raw().vectors[0]
    answer = await client.post("/shorten?encoding=binary", json={"vectors": [z.tolist()]})
    np.testing.assert_array_equal(dense(answer.json()["data"][0], WIDTH, "binary"), set_bits(z, bundle, WIDTH))
    refused = await client.post("/shorten?encoding=binary", json={"vectors": [z[:20].tolist()]})
    assert (refused.status_code, refused.json()["error"]["field"]) == (422, "vectors")


@pytest.mark.parametrize("encoding", ["float", "base64", "float16"])
def test_an_npy_is_the_dense_matrix(bundle: Bundle, encoding: Any) -> None:
    wanted = Parameters(dimensions=20, encoding=encoding)
    as_npy.check(wanted)
    found = np.load(io.BytesIO(as_npy.write(shortened(bundle.manifest, raw(), wanted))))
    reference = shorten(raw().vectors, 20)
    for z, expected in zip(found, reference, strict=True):
        close(z.astype(np.float32), expected, encoding)


@pytest.mark.parametrize(
    "wanted",
    [{"format": "sparse"}, {"encoding": "int8"}, {"encoding": "compact"}, {"errors": "item"}, {"dimensions": [3, 4]}],
)
def test_what_an_npy_cannot_hold_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        as_npy.check(Parameters(**wanted))
    assert refused.value.field == next(iter(wanted))


@pytest.mark.parametrize("form", [as_json, as_msgpack, as_arrow])
@pytest.mark.parametrize("shape", ["dense", "both"])
@pytest.mark.parametrize("encoding", ["compact", "binary"])
def test_a_format_beside_what_is_packed_is_refused(form: Any, shape: Any, encoding: Any) -> None:
    with pytest.raises(ParameterInvalid) as refused:
        form.check(Parameters(encoding=encoding, format=shape))
    assert refused.value.field == "encoding"


@pytest.mark.parametrize(
    ("encoding", "shape"),
    [*itertools.product(["float", "float16", "int8"], ["sparse", "dense", "both"]), ("compact", "sparse")],
)
def test_arrow_holds_lengths_errors_and_the_head(bundle: Bundle, encoding: Any, shape: Any) -> None:
    vectors = EncodedBatch(raw().vectors, [0, 2, 3], {1: ImageUnreadable("broken", fix="send it whole")})
    wanted = Parameters(dimensions=[30, 10], encoding=encoding, format=shape)
    stream = pa.ipc.open_stream(as_arrow.write(shortened(bundle.manifest, vectors, wanted)))
    table = stream.read_all()
    assert table.schema.metadata[b"fingerprint"].decode() == bundle.manifest.fingerprint
    rows = table.to_pylist()
    assert [row["index"] for row in rows] == [0, 0, 1, 2, 2, 3, 3]
    assert rows[2]["error"]["type"] == "image_unreadable"
    for row in (rows[0], rows[1]):
        k = row["dimensions"]
        row = {name: value for name, value in row.items() if value is not None}
        close(dense(row, k, encoding), shorten(raw().vectors[0], k), encoding)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, as_json),
        ("*/*", as_json),
        ("text/html, application/xhtml+xml, */*;q=0.8", as_json),
        ("application/x-npy", as_npy),
        ("application/json;q=0.5, application/msgpack", as_msgpack),
        ("application/msgpack;q=0, application/vnd.apache.arrow.stream", as_arrow),
    ],
)
def test_the_most_wanted_form_is_taken(accept: str | None, form: Any) -> None:
    assert form_for(accept) is form


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "text/plain", ";;;", "a/b;q=x"])
def test_a_form_that_does_not_exist_is_406(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="accept one of"):
        form_for(accept)


def mostly_zero(rows: int, width: int, share: float = 0.25) -> np.ndarray:
    """As real vectors are."""
    rng = np.random.default_rng(rows)
    z = rng.random((rows, width), np.float32) ** 2
    z[rng.random(z.shape) > share] = 0
    return z


@pytest.mark.parametrize("shape", ["sparse", "dense", "both"])
@pytest.mark.parametrize("share", [0.02, 0.25, 1.0])
@pytest.mark.parametrize("dimensions", [None, 700, [1280, 256]])
def test_many_vectors_at_once_say_the_same_as_one_by_one(
    bundle: Bundle, shape: Any, share: float, dimensions: Any
) -> None:
    vectors = mostly_zero(70, 1280, share)
    vectors[[0, 40, 69]] = 0
    vectors[1, 3] = 123.456
    vectors[2, :2] = (3e-9, 1e-30)
    wanted = Parameters(dimensions=dimensions, format=shape, normalize=False)
    answer = shortened(
        bundle.manifest, EncodedBatch(vectors, [*range(5), *range(6, 71)], {5: ImageUnreadable("b")}), wanted
    )
    found = orjson.loads(as_json.write(answer))
    reference = ormsgpack.unpackb(as_msgpack.write(answer))
    assert found["data"][5]["error"]["type"] == "image_unreadable"
    for item, other in zip(found["data"], reference["data"], strict=True):
        pairs = zip(item["lengths"], other["lengths"], strict=True) if "lengths" in item else [(item, other)]
        for a, b in pairs:
            assert (a.keys(), a.get("nnz"), a.get("zero")) == (b.keys(), b.get("nnz"), b.get("zero"))
            for name, dtype in (("indices", "<i4"), ("values", "<f4"), ("embedding", "<f4")):
                if name in a:
                    np.testing.assert_array_equal(np.array(a[name], dtype), np.frombuffer(b[name], dtype))


def as_floats(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its numbers as the float32 they stand for, and without its place."""
    numbers = {name: np.float32(row[name]).tolist() for name in ("values", "embedding") if name in row}
    return {**row, **numbers, "index": 0}


@settings(max_examples=150, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 6, 7, 8, 64, 128]),
    size=st.sampled_from([0, 1, 8192, 2**15 + 1]),
    share=st.sampled_from([0.0, 0.0005, 0.1, 1.0]),
    empty=st.sampled_from(["none", "first", "last", "half", "all"]),
    shape=st.sampled_from(["sparse", "dense", "both"]),
)
def test_a_batch_is_written_as_its_vectors_are_one_by_one(
    bundle: Bundle, rows: int, size: int, share: float, empty: str, shape: Any
) -> None:
    z = mostly_zero(rows, max(1, -(-size // rows)), share)
    gone = {"none": [], "first": [0], "last": [rows - 1], "half": list(range(rows // 2)), "all": list(range(rows))}
    z[gone[empty]] = 0
    wanted = Parameters(format=shape, normalize=False)
    together = orjson.loads(as_json.write(shortened(bundle.manifest, EncodedBatch(z, list(range(rows)), {}), wanted)))[
        "data"
    ]
    alone = [
        orjson.loads(as_json.write(shortened(bundle.manifest, EncodedBatch(row[None], [0], {}), wanted)))["data"][0]
        for row in z
    ]
    assert list(map(as_floats, together)) == list(map(as_floats, alone))


@pytest.mark.anyio
async def test_images_of_which_no_dimension_is_left_are_answered_with_the_others(client: httpx.AsyncClient) -> None:
    zero = {"indices": [], "values": []}
    answer = await client.post("/shorten", json={"vectors": [zero] * 200 + [{"indices": [3], "values": [2.0]}]})
    assert answer.status_code == 200
    assert [row["nnz"] for row in answer.json()["data"]] == [0] * 200 + [1]
