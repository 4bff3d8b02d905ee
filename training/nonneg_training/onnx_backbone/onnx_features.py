"""An ONNX encoder as a backbone: its features' graph by the settings, run by ONNX Runtime; nothing of it learns."""

import hashlib
from pathlib import Path

import torch
from onnx import ModelProto
from torch import Tensor, nn

from nonneg_core.errors import BundleInvalid, CheckpointInvalid, ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.encoder.backbone import Backbone
from nonneg_training.onnx_backbone.huggingface_preprocessor import read_preprocessor
from nonneg_training.onnx_backbone.onnx_graph import load_graph
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling, side, with_scaling_and_pooling
from nonneg_training.setup.run_settings import Onnx, RunSettings

USUAL_SIZE = 224


def resolve_onnx(settings: RunSettings) -> RunSettings:
    """Fill in view, scaling and digest, so that the run needs nothing but the encoder's file."""
    path = Path(settings.model.backbone).absolute()
    options = settings.onnx.model_copy(update={"digest": settings.onnx.digest or digest_of_encoder(path)})
    views = settings.views
    if options.preprocessor is not None:
        view, scaling = read_preprocessor(options.preprocessor)
        _check_size(views.size, view, options.preprocessor)
        geometry = {"size": view.size, "fit": view.fit, "centre": view.crop, "interpolation": view.interpolation}
        views = views.model_copy(update=geometry)
        numbers = {"factor": scaling.factor, "mean": scaling.mean, "std": scaling.std, "preprocessor": None}
        options = options.model_copy(update=numbers)
    if views.size is None:
        views = views.model_copy(update={"size": side(load_graph(path)) or USUAL_SIZE})
    model = settings.model.model_copy(update={"backbone": str(path)})
    return settings.model_copy(update={"model": model, "views": views, "onnx": options})


def features_graph(path: Path, how: Onnx, size: int) -> ModelProto:
    """Build what a bundle begins with: pixels in, one row of features an image out."""
    if how.digest and how.digest != digest_of_encoder(path):
        raise CheckpointInvalid(
            f"{path} is not the encoder that this head was trained on (its sha256 differs)",
            fix="put that one back, or train again",
            field="model.backbone",
            value=str(path),
        )
    scaling = Scaling(how.factor, how.mean, how.std)
    return with_scaling_and_pooling(load_graph(path), size, scaling, output_name=how.output, pool=how.pool)


def digest_of_encoder(path: Path) -> str:
    """Return sha256 of the file, and of the files of weights beside it that it names."""
    whole = hashlib.sha256()
    try:
        beside = sorted(external_files(path))
        for part in (path, *(path.parent / name for name in beside)):
            with part.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    except BundleInvalid as error:
        raise DataInvalid(f"{path} is not an ONNX model", fix="export it again", value=str(path)) from error
    except OSError as error:
        raise DataInvalid(
            f"{error.filename} cannot be read ({error.strerror})",
            fix="check the path of the ONNX encoder (model.backbone)",
            field="model.backbone",
            value=str(path),
        ) from error
    return whole.hexdigest()


def _check_size(pixels: int | None, view: View, path: Path) -> None:
    if pixels not in (None, view.size):
        raise ConfigInvalid(
            f"views.size={pixels}, but {path} says {view.size}",
            fix="leave views.size out",
            field="views.size",
            value=pixels,
        )


class OnnxBackbone(Backbone):
    """Takes the pixels as they are, 0..255: scaling is part of the graph, as it will be in the bundle."""

    def __init__(self, path: Path, how: Onnx, size: int) -> None:
        model = features_graph(path, how, size)
        width = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
        super().__init__(nn.Identity(), width, size=size, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
        self._digest = f"{how.digest} {how.model_dump_json(exclude={'preprocessor'})}"
        self._session = Session(model.SerializeToString(), threads=torch.get_num_threads())
        self._made_of = (path, how, size)

    def __reduce__(self) -> "tuple[type[OnnxBackbone], tuple[Path, Onnx, int]]":
        return OnnxBackbone, self._made_of  # a session does not travel: another process opens the file by the same path

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        pixels = x.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        rows = self._session.run(pixels.cpu().numpy())
        return torch.from_numpy(rows).to(x.device)

    def identity(self) -> bytes:
        return self._digest.encode()
