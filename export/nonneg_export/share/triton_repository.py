"""A Triton model repository of a bundle: config.pbtxt, and the encoder as version 1 (or the next one)."""

import shutil
from pathlib import Path

from nonneg_core.errors import ConfigInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_runtime.bundle.bundle_folder import Bundle, staged, storing
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.runner import INPUT, OUTPUT

MAX_BATCH = 32
MODEL = "model.onnx"


def write_repository(bundle: Bundle, repository: Path) -> Path:
    """Add the bundle to a model repository; the model's folder is its name, an existing one gets a new version."""
    if bundle.manifest.precision == "bf16":
        raise ConfigInvalid(
            "Triton's ONNX Runtime computes no bf16: it would answer other vectors under this fingerprint",
            fix="write the repository of the bundle it was made from",
            field="triton",
        )
    folder = repository / bundle.manifest.name
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        newest = max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=0)
        with staged(folder / str(newest + 1)) as place:
            shutil.copyfile(bundle.encoder, place / MODEL)
            for name in external_files(bundle.encoder):  # weights that lie beside the graph
                shutil.copyfile(bundle.path / name, place / name)
        with atomic_write(folder / "config.pbtxt") as temporary:
            temporary.write_text(config(bundle.manifest), encoding="utf-8")
    return folder


def config(manifest: Manifest) -> str:
    """Return config.pbtxt: the shapes, dynamic batching, and what a client must know to interpret the vectors."""
    side = manifest.view.size
    facts = {
        "fingerprint": manifest.fingerprint,
        "version": manifest.version,
        "activation": manifest.activation,
        "view": manifest.view.model_dump_json(),
    }
    parameters = "\n".join(
        f'parameters {{ key: "{key}" value {{ string_value: {_quoted(value)} }} }}' for key, value in facts.items()
    )
    return f"""\
name: {_quoted(manifest.name)}
platform: "onnxruntime_onnx"
max_batch_size: {MAX_BATCH}
input {{ name: "{INPUT}" data_type: TYPE_UINT8 dims: [ {side}, {side}, 3 ] }}
output {{ name: "{OUTPUT}" data_type: TYPE_FP32 dims: [ {manifest.dimensions} ] }}
dynamic_batching {{ max_queue_delay_microseconds: 0 }}
version_policy {{ latest {{ num_versions: 1 }} }}
{parameters}
"""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
