"""Small image encoders as repositories of the hub hold them, for the tests of this folder."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NAME = "someone/encoder"
SIDE, WIDTH = 16, 12
CARD = b"---\nlicense: apache-2.0\n---\nA model.\n"
SEEN = {
    "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True, "image_mean": [0.5] * 3,
    "image_std": [0.25] * 3, "resample": 3, "size": {"shortest_edge": 20},
}  # fmt: skip
RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(WIDTH, 3, 4, 4)).astype(np.float32)


def encoder(*, tokens: bool = False, half: bool = False, side: int = SIDE) -> bytes:
    """A patch embedding as hubs hold towers: pixel_values in; rows or tokens out."""
    nodes = [helper.make_node("Conv", ["pixel_values", "kernel"], ["map"], strides=[4, 4])]
    kind, patches = (TensorProto.FLOAT16 if half else TensorProto.FLOAT), (side // 4) ** 2
    if tokens:
        flat = numpy_helper.from_array(np.array([0, WIDTH, patches], np.int64), "flat")
        nodes += [
            helper.make_node("Reshape", ["map", "flat"], ["r"]),
            helper.make_node("Transpose", ["r"], ["last_hidden_state"], perm=[0, 2, 1]),
        ]
        weights, out = [flat], helper.make_tensor_value_info("last_hidden_state", kind, ["n", patches, WIDTH])
    else:
        nodes += [helper.make_node("GlobalAveragePool", ["map"], ["p"]), helper.make_node("Flatten", ["p"], ["rows"])]
        weights, out = [], helper.make_tensor_value_info("rows", kind, ["n", WIDTH])
    weights.append(numpy_helper.from_array(KERNEL.astype(np.float16) if half else KERNEL, "kernel"))
    taken = helper.make_tensor_value_info("pixel_values", kind, ["n", 3, side, side])
    graph = helper.make_graph(nodes, "tower", [taken], [out], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def in_bytes() -> bytes:
    """The same tower whose kernel is stored as signed bytes with a scale."""
    model, scale = onnx.load_from_string(encoder()), np.float32(np.abs(KERNEL).max() / 127)
    stored = [numpy_helper.from_array(np.rint(KERNEL / scale).astype(np.int8), "bytes"),
              numpy_helper.from_array(np.array(scale), "scale")]  # fmt: skip
    model.graph.ClearField("initializer")
    model.graph.initializer.extend(stored)
    nodes = [helper.make_node("DequantizeLinear", ["bytes", "scale"], ["kernel"]), *model.graph.node]
    model.graph.ClearField("node")
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())


def published(model_type: str = "vit", **files: bytes) -> dict[str, bytes]:
    return {
        "config.json": json.dumps({"model_type": model_type}).encode(),
        "preprocessor_config.json": json.dumps(SEEN).encode(),
        "README.md": CARD,
        **{name.replace("__", "/").replace("_onnx", ".onnx"): data for name, data in files.items()},
    }
