"""Where a dimension comes from: the cells against a slow second version, and a graph that is asked for its map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nonneg_core.errors import ParameterInvalid
from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.heads.head import Head, roots
from nonneg_runtime.inference.cell_map import CellMap, pooled_map, split
from nonneg_runtime.inference.onnx_session import Session

PHOTO = np.random.default_rng(3).integers(0, 256, (224, 224, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def fast() -> Bundle:
    return open_bundle("photo-fast")


def slow(found: np.ndarray, head: Head, j: int, rooted: bool) -> np.ndarray:
    """One cell after the other."""
    channels, rows, columns = found.shape
    parts = np.zeros((rows, columns))
    for y in range(rows):
        for x in range(columns):
            parts[y, x] = head.bias[j] / (rows * columns)
            for c in range(channels):
                mean = found[c].mean(dtype=np.float64)
                if mean > 0:
                    read = np.sqrt(mean) if rooted else mean
                    parts[y, x] += head.weight[c, j] * read * found[c, y, x] / found[c].sum(dtype=np.float64)
    p = parts.sum()
    return parts / p * p**head.power if p > 0 else np.zeros_like(parts)


@pytest.mark.parametrize("rooted", [True, False])
def test_cells_are_split_as_the_rule_says_and_sum_to_the_strength(rooted: bool) -> None:
    rng = np.random.default_rng(1)
    found = np.maximum(rng.normal(size=(6, 3, 4)), 0).astype(np.float32)
    found[2] = 0
    head = Head(rng.normal(size=(6, 9)).astype(np.float32), rng.normal(size=9).astype(np.float32) / 9)
    cells = split(found, head, list(range(9)), rooted=rooted)
    means = found.mean(axis=(1, 2))[None]
    whole = head.embed(roots(means) if rooted else means)[0]
    assert 0 < np.count_nonzero(whole) < 9
    for j in range(9):
        assert cells[j] == pytest.approx(slow(found, head, j, rooted), abs=1e-5)
        assert cells[j].sum() == pytest.approx(whole[j], abs=1e-4)


def test_the_shipped_encoders_cells_sum_to_their_vector(fast: Bundle) -> None:
    z = Session(fast.encoder).run(PHOTO[None])[0]
    wanted = [int(j) for j in np.argsort(-z)[:20]] + [int(np.flatnonzero(z == 0)[0])]
    cells = CellMap(fast).split(PHOTO, wanted)
    assert cells.shape == (21, 7, 7)
    assert cells.sum(axis=(1, 2)) == pytest.approx(z[wanted], abs=1e-3)


def test_a_model_whose_head_is_inside_its_graph_says_that_it_cannot(fast: Bundle) -> None:
    headless = Bundle(fast.path, fast.manifest.model_copy(update={"head": None}))
    with pytest.raises(ParameterInvalid, match="cannot say where"):
        CellMap(headless)


def test_the_last_mean_of_a_graph_is_found_and_none_where_there_is_none(tmp_path: Path) -> None:
    def saved(name: str, *nodes: onnx.NodeProto) -> Path:
        shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(np.zeros((300, 300), np.float32), "w")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", [shape], [out], weights)), tmp_path / name)
        return tmp_path / name

    pool = helper.make_node("GlobalAveragePool", ["x"], ["m"])
    relu = helper.make_node("Relu", ["m"], ["y"])
    assert pooled_map(saved("pooled.onnx", pool, relu)) == "x"
    assert pooled_map(saved("plain.onnx", helper.make_node("Relu", ["x"], ["y"]))) is None


@pytest.mark.parametrize("fit", ["cover", "squash", "contain"])
def test_what_the_pixels_show_of_a_picture(fit: str) -> None:
    view = View(size=100, fit=fit, crop=1.0 if fit == "contain" else 0.8)  # type: ignore[arg-type]
    expected = {
        "cover": (0.3, 0.1, 0.4, 0.8),
        "squash": (0.1, 0.1, 0.8, 0.8),
        "contain": (0.0, -0.5, 1.0, 2.0),
    }
    assert view.seen_of((400, 200)) == pytest.approx(expected[fit])
