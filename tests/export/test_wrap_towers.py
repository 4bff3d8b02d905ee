"""Vision transformers as torch's two exporters write them, whole and in half precision, become bundles."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from nonneg_core.errors import CheckFailed
from nonneg_export.calibrate.photo_folder import find_photos, load_pixels
from nonneg_export.checks.agreement import held_out
from nonneg_export.commands.wrap import wrap
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.inference.onnx_session import Session

SIDE, PATCH, WIDTH, OUT = 32, 16, 32, 24
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)
CONFIG = {
    "crop_size": {"height": SIDE, "width": SIDE}, "do_center_crop": True, "image_mean": MEAN, "image_std": STD,
    "resample": 3, "size": {"shortest_edge": SIDE},
}  # fmt: skip


class Tower(nn.Module):
    """CLIP's vision tower, small: patches, a class token, transformer layers, a projection."""

    def __init__(self) -> None:
        super().__init__()
        tokens = (SIDE // PATCH) ** 2 + 1
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.token, self.places = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(tokens, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 64, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.projection = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, OUT, bias=False)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        x = self.patches(pixels).flatten(2).transpose(1, 2)  # (batch, patches, WIDTH)
        x = torch.cat([self.token.expand(pixels.shape[0], 1, -1), x], 1) + self.places
        hidden = self.layers(x)
        return self.projection(self.norm(hidden[:, 0])), hidden


@pytest.fixture(scope="module")
def tower() -> Tower:
    torch.manual_seed(0)
    return Tower().eval()


def exported(tower: Tower, path: Path, kind: str) -> Path:
    example = torch.zeros(2, 3, SIDE, SIDE)
    names = {"input_names": ["pixel_values"], "output_names": ["image_embeds", "last_hidden_state"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "dynamo":
            batch = ({0: torch.export.Dim("batch")},)
            torch.onnx.export(
                tower, (example,), path, dynamo=True, dynamic_shapes=batch, opset_version=20, verbose=False, **names
            )
        else:
            whole = tower.half() if kind == "half" else tower
            axes = {name: {0: "batch"} for some in names.values() for name in some}
            given = example.half() if kind == "half" else example
            torch.onnx.export(whole, (given,), path, dynamo=False, dynamic_axes=axes, opset_version=17, **names)
            tower.float()
    return path


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("legacy", ()),
        pytest.param("dynamo", ("--output", "last_hidden_state", "--pool", "mean"), marks=pytest.mark.nightly),
        ("half", ("--output", "last_hidden_state", "--pool", "cls")),
    ],
)
def test_a_vision_transformer_becomes_a_bundle_that_answers_what_torch_answers(
    kind: str, options: tuple[str, ...], tower: Tower, labelled: Path, tmp_path: Path
) -> None:
    encoder = exported(tower, tmp_path / "tower.onnx", kind)
    config = tmp_path / "preprocessor_config.json"
    config.write_text(json.dumps(CONFIG))
    words = [str(encoder), "--preprocessor", str(config), *options, "--centre", "--calibrate", str(labelled)]
    result = CliRunner().invoke(wrap, [*words, "--out", str(tmp_path / "b")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    bundle = open_bundle(tmp_path / "b")
    assert bundle.manifest.precision == ("fp16" if kind == "half" else "fp32")
    pixels = np.stack([load_pixels(path, bundle.manifest.view)[0] for path in find_photos(labelled).paths])
    scaled = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(
        STD
    )[:, None, None]
    with torch.no_grad():
        embeds, hidden = tower(scaled.float())
    rows = {"legacy": embeds, "dynamo": hidden.mean(1), "half": hidden[:, 0]}[kind].numpy()
    expected = np.maximum(rows - rows[~held_out(len(rows))].mean(axis=0), 0)[:, list(bundle.manifest.columns.original)]
    np.testing.assert_allclose(Session(bundle.encoder).run(pixels), expected, atol=2e-4)


def test_an_encoder_whose_answers_are_all_zero_is_refused(tower: Tower, labelled: Path, tmp_path: Path) -> None:
    dead = Tower().eval()
    nn.init.zeros_(dead.projection.weight)
    encoder = exported(dead, tmp_path / "dead.onnx", "legacy")
    words = [str(encoder), "--size", str(SIDE), "--centre", "--calibrate", str(labelled), "--out", str(tmp_path / "b")]
    result = CliRunner().invoke(wrap, words)
    assert isinstance(result.exception, CheckFailed)
    assert "every dimension is zero on all 60 images" in str(result.exception)
    assert not (tmp_path / "b").exists()
