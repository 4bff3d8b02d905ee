"""What is measured: the folder of a run, a bundle, an ONNX file, or an array of vectors."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import DataInvalid
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.terminal.installing import needing
from nonneg_runtime.bundle.bundle_folder import located, open_bundle
from nonneg_training.data import Images
from nonneg_training.measure.encoder_outputs import Outputs, Run, Tick, encode_images, runner
from nonneg_training.setup.run_settings import SETTINGS_FILE as CONFIG
from nonneg_training.setup.run_settings import Data, Onnx, read_settings

UNREADABLE = (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error)
FEWEST = 4  # images, as with --limit: two halves of two


@dataclass(frozen=True)
class MeasuredTarget:
    """An encoder that can be shown images."""

    what: str
    run: Run
    view: View
    data: Data | None = None  # what it was trained on

    def see(self, images: Images, *, seconds: bool = True, tick: Tick | None = None) -> Outputs:
        """Return its rows of these images."""
        return encode_images(self.run, images, self.view, seconds=seconds, tick=tick)


def is_array(path: Path) -> bool:
    """Return whether the path is read as vectors."""
    return path.suffix.lower() in (".npy", ".npz")


def open_target(path: Path, *, seed: int = 0, onnx: Onnx | None = None, size: int | None = None) -> MeasuredTarget:
    """Return the encoder at a path; `seed` draws the untrained head of a run.

    onnx: how pixels become the input of an ONNX file that takes floats; size: its side, where it takes any.
    """
    if (path / CONFIG).is_file():
        return _run(path, seed)
    if (located(path) / "manifest.json").is_file():  # or the name of a model that comes with nonneg
        return _bundle(path)
    if path.suffix.lower() == ".onnx" and path.is_file():
        return _onnx(path, onnx or Onnx(), size)
    raise DataInvalid(
        f"{path} is not an encoder" if path.exists() else f"{path} does not exist",
        fix="give the folder of a run or a bundle, an .onnx file, or vectors as .npy or .npz",
        value=str(path),
    )


def read_array(path: Path, labels: Path | None) -> Outputs:
    """Return vectors and labels: .npz with z, labels and perhaps second; or .npy with a file of labels beside it."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            arrays = {"z": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except UNREADABLE as error:
        raise DataInvalid(f"{path} cannot be read ({error})", fix="save it with numpy.save or numpy.savez") from error
    if labels is not None:
        arrays["labels"] = _labels(labels)
    for name, fix in (("z", "save it as numpy.savez(path, z=z, labels=labels)"), ("labels", "give --labels FILE")):
        if name not in arrays:
            raise DataInvalid(f"{path} holds no {name}", fix=fix, value=str(path))
    z, named = _vectors(path, "z", arrays["z"]), arrays["labels"]
    if named.shape != (len(z),):
        raise DataInvalid(
            f"{path}: labels of shape {named.shape} for {len(z)} vectors", fix="give one label a vector", field="labels"
        )
    if len(z) < FEWEST:
        raise DataInvalid(f"{path} holds {len(z)} vectors", fix=f"give at least {FEWEST}", field="z", limit=FEWEST)
    return Outputs(z, named, second=_vectors(path, "second", arrays["second"]) if "second" in arrays else None)


def _vectors(path: Path, name: str, array: NDArray[Any]) -> Floats:
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not array.shape[1]:
        raise DataInvalid(
            f"{path}: {name} is {array.dtype} of shape {array.shape}",
            fix="give one row of numbers an image, (images, D)",
            field=name,
        )
    rows = np.asarray(array, np.float32)
    if not np.isfinite(rows).all():
        raise DataInvalid(
            f"{path}: {name} holds values that are not finite numbers", fix="see which images gave them", field=name
        )
    return rows


def _labels(path: Path) -> NDArray[Any]:
    try:
        if path.suffix.lower() == ".npy":
            labels: NDArray[Any] = np.load(path, allow_pickle=False)
            return labels
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except UNREADABLE as error:
        raise DataInvalid(f"{path} cannot be read ({error})", fix="give .npy, or text with a label a line") from error


def _run(path: Path, seed: int) -> MeasuredTarget:
    from nonneg_training.loop.training_checkpoint import load_encoder

    encoder, settings = load_encoder(path), read_settings(path / CONFIG, {})
    what = f"{path}: a run of {settings.method}, {settings.model.activation}"
    return MeasuredTarget(what, runner(encoder, seed=seed), encoder.view, settings.data)


def _bundle(path: Path) -> MeasuredTarget:
    bundle = open_bundle(path)
    manifest = bundle.manifest
    return MeasuredTarget(
        f"{path}: {manifest.name} {manifest.version}", _session(bundle.encoder, manifest.precision)[0], manifest.view
    )


def _onnx(path: Path, how: Onnx, size: int | None) -> MeasuredTarget:
    """Return an encoder that takes pixels as ours do, or floats (batch, 3, side, side), which `how` scales."""
    run, fixed = _session(path, "fp32")
    if fixed is not None:
        return MeasuredTarget(str(path), run, View(size=fixed))
    import torch

    from nonneg_training.onnx_backbone.onnx_features import USUAL_SIZE, OnnxBackbone
    from nonneg_training.onnx_backbone.onnx_graph import load_graph
    from nonneg_training.onnx_backbone.scaling_and_pooling import side

    size = size or side(load_graph(path)) or USUAL_SIZE
    network = OnnxBackbone(path, how, size)

    def features(pixels: Pixels) -> dict[str, Floats]:
        return {"z": network(torch.from_numpy(pixels).permute(0, 3, 1, 2)).numpy()}

    what = f"{path}: {size} px, mean {' '.join(map(str, how.mean))}, std {' '.join(map(str, how.std))}"
    return MeasuredTarget(what, features, View(size=size))


def _session(path: Path, precision: str) -> tuple[Run, int | None]:
    with needing(f"running {path}", extra="export"):
        from nonneg_runtime.inference.encoder import open_session
    session = open_session(path, precision=precision)

    def run(pixels: Pixels) -> dict[str, Floats]:
        return {"z": session.run(np.ascontiguousarray(pixels))}

    return run, getattr(session, "side", None)
