"""A bundle from a bundle, its encoder in int8 or half precision, compared before it is written."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from nonneg_core.errors import CheckFailed, ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.files.atomic import storage_error
from nonneg_core.pixels.view import Pixels, View
from nonneg_export.assembly.text_towers import carried_sentences
from nonneg_export.calibrate.activations import Activations, collect
from nonneg_export.calibrate.photo_folder import Photos, load_pixels
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks import encoder_checks
from nonneg_export.checks.agreement import Agreement, agreement, as_checks
from nonneg_export.checks.encoder_checks import ignores_batch_mates, samples
from nonneg_export.checks.quality_report import evaluate
from nonneg_export.graphs.canonical import canonical, restore_fp32, save, silenced, store_fp16
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import INPUT, OUTPUT
from nonneg_training.onnx_backbone.onnx_graph import load_graph

Small = Literal["int8", "bf16", "fp16"]
FOR_RANGES, FOR_JUDGING = 300, 1000  # photos at most
FEWEST = 4
TOLERANCES = {  # of the golden vector
    "int8": 0.98,  # processors without VNNI round and saturate otherwise
    "bf16": 0.98,  # and no two add up rounded numbers in the same order
}


@dataclass(frozen=True)
class SmallEncoder:
    """The smaller encoder with its manifest, and how alike it is; not sealed yet."""

    encoder: Path
    manifest: Manifest
    activations: Activations
    agreement: Agreement


def quantized(
    bundle: Bundle, to: Small, photos: Photos, work: Path, *, min_quality: float, tick: Tick | None = None
) -> SmallEncoder:
    """Quantise with half of the photos, compare on the other half, refuse below `min_quality`."""
    if bundle.manifest.precision in (to, "int8", "bf16"):
        raise ConfigInvalid(
            f"{bundle.path} is {bundle.manifest.precision} already",
            fix="start from the bundle it was made from",
            field="bundle",
        )
    if len(photos) < FEWEST:
        raise DataInvalid(f"{len(photos)} photos are too few to quantise with", fix="give 100 or more")
    ranges = Photos(photos.folder, photos.paths[::2]).every(FOR_RANGES)
    others = Photos(photos.folder, photos.paths[1::2]).every(FOR_JUDGING)
    view, encoder = bundle.manifest.view, work / ENCODER
    before = collect(bundle.encoder, others, view, work / "before", tick=tick)
    if to == "int8":
        model = to_int8(bundle.encoder, ranges.paths, view)
        save(store_fp16(model) if bundle.manifest.precision == "fp16" else model, encoder)  # what is left as numbers
    elif to == "fp16":
        save(store_fp16(load_graph(bundle.encoder)), encoder)
    else:  # the same encoder, computed otherwise
        save(load_graph(bundle.encoder), encoder)
    after = collect(encoder, others, view, work / "after", precision=to, tick=tick)
    fidelity = agreement(before.values, after.values)
    recorded = encoder_checks.record(encoder, view.size, to)
    tolerance = TOLERANCES.get(to, recorded.tolerance)
    manifest = bundle.manifest.model_copy(
        update={
            "precision": to,
            "derived_from": bundle.manifest.fingerprint,
            "golden": recorded.model_copy(update={"tolerance": tolerance}),
            "checks": (
                *as_checks(fidelity, min_quality),
                ignores_batch_mates(open_session(encoder, precision=to), samples(before.paths, view)),
            ),
            "quality": None,
            "certificate": None,
            "atlas": None,
            "head": None,  # within the graph
            "variants": (),
        }
    )
    for beside in (manifest.names, manifest.lexicon):
        if beside is not None:
            shutil.copyfile(bundle.path / beside.file, work / beside.file)
    _bring_text(bundle, work)
    manifest = manifest.model_copy(update={"sentences": carried_sentences(bundle, work)})
    return SmallEncoder(encoder, manifest, after, fidelity)


def _bring_text(bundle: Bundle, work: Path) -> None:
    """Copy the text tower with its head within: the quantised encoder's bundle has no file of a head."""
    record = bundle.manifest.text
    if record is not None:
        save(load_graph(bundle.path / record.file), work / record.file)
        shutil.copyfile(bundle.path / record.tokenizer, work / record.tokenizer)


def evaluated(shrunk: SmallEncoder, photos: Photos, labelled: Photos, work: Path, *, data: str = "") -> SmallEncoder:
    """Return the same with its own quality report; `photos` are what it was quantised with."""
    used = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in photos.paths if path.is_file())
    quality = evaluate(shrunk.encoder, shrunk.manifest, shrunk.activations.values, used, labelled, work, data=data)
    manifest = shrunk.manifest.model_copy(update={"quality": quality})
    return replace(shrunk, manifest=manifest)


# Static int8 with unsigned activations.
#
# Static, because dynamic quantisation makes a vector depend on its batch-mates. Unsigned, because that is what CPUs
# multiply fast. Everything up to the last layer is quantised; what follows it (pooling, centre, ReLU) stays float.

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
            save(restore_fp32(load_graph(encoder)), wide)
            quant_pre_process(str(wide), str(prepared), skip_symbolic_shape=True)
            quantize_static(
                str(prepared),
                str(quantized),
                None if view is None else _Reader(photos, view),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(QUANTIZED),
                nodes_to_exclude=_tail(load_graph(prepared)),
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
        return canonical(load_graph(quantized))


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
    names, waiting = [], [OUTPUT]
    while waiting:
        node = makers.get(waiting.pop())
        if node is not None and (node.op_type not in LAYERS or _on_roots(node, makers)):
            names.append(node.name)
            waiting += node.input
    return names


def _on_roots(node: NodeProto, makers: dict[str, NodeProto]) -> bool:
    """Return whether it is the layer of a head on roots, which has large numbers and small ones that count."""
    before = makers.get(node.input[0])
    return node.op_type in ("MatMul", "Gemm") and before is not None and before.op_type == "Sqrt"
