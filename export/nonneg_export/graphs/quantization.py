"""Static int8 with unsigned activations.

Static, because dynamic quantisation makes a vector depend on its batch-mates. Unsigned, because that is what CPUs
multiply fast. Everything up to the last layer is quantised; what follows it (pooling, centre, ReLU) stays float.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from nonneg_core.atomic import storage_error
from nonneg_core.errors import CheckFailed, NonnegError
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.graphs.canonical import canonical, save
from nonneg_export.graphs.fp16_weights import restore_fp32
from nonneg_export.photo_folder import load_pixels
from nonneg_export.silence import silenced
from nonneg_runtime.graph import INPUT, OUTPUT
from nonneg_training.onnx_backbone.onnx_graph import load

QUANTIZED = ("Conv", "Gemm", "MatMul", "Add", "Clip", "Relu", "MaxPool", "Concat")
LAYERS = ("Conv", "Gemm", "MatMul", "ReduceMean", "GlobalAveragePool")


def to_int8(encoder: Path, photos: Sequence[Path], view: View | None, *, ranges: Path | None = None) -> ModelProto:
    """Return the encoder with 8-bit weights (one scale a channel) and activations (ranges seen on the photos).

    ranges: a file that is written with what was seen; once it is there it is read, and the photos are not.
    """
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory(prefix="nonneg-") as place, silenced():
        wide, prepared, quantized = (Path(place, name) for name in ("wide.onnx", "prepared.onnx", "int8.onnx"))
        try:
            save(restore_fp32(load(encoder)), wide)
            quant_pre_process(str(wide), str(prepared), skip_symbolic_shape=True)
            quantize_static(
                str(prepared),
                str(quantized),
                None if view is None else _Reader(photos, view),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(QUANTIZED),
                nodes_to_exclude=_tail(load(prepared)),
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod.MinMax,
                **({} if ranges is None else {"calibration_cache_path": ranges}),
            )
        except OSError as error:
            raise storage_error(Path(place), error) from error
        except Exception as error:  # the tool raises whatever its stages raise
            raise CheckFailed(
                f"this encoder cannot be quantised to int8 ({type(error).__name__}: {error})", fix="store it as fp16"
            ) from error
        return canonical(load(quantized))


class _Reader:
    """The photos, one by one, as onnxruntime's calibrator asks for them."""

    def __init__(self, photos: Sequence[Path], view: View) -> None:
        self._feeds = ({INPUT: pixels[None]} for pixels in _readable(photos, view))

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._feeds, None)

    def set_range(self, start_index: int, end_index: int) -> None:
        """Do nothing: it is asked only when the calibrator strides over the data."""


def _readable(photos: Sequence[Path], view: View) -> Iterator[Pixels]:
    for path in photos:
        with contextlib.suppress(NonnegError, OSError):  # a broken photo sets no range
            yield load_pixels(path, view)[0]


def _tail(model: ModelProto) -> list[str]:
    """Return the nodes between the last layer and the output."""
    makers = {name: node for node in model.graph.node for name in node.output}
    found, waiting = [], [OUTPUT]
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and (node.op_type not in LAYERS or _on_roots(node, makers)):
            found.append(node.name)
            waiting += node.input
    return found


def _on_roots(node: NodeProto, makers: dict[str, NodeProto]) -> bool:
    """Return whether it is the layer of a head on roots, which has large numbers and small ones that count."""
    before = makers.get(node.input[0])
    return node.op_type in ("MatMul", "Gemm") and before is not None and before.op_type == "Sqrt"
