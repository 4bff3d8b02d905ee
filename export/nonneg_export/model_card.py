"""The model card: README.md as model hubs show it, written from the manifest alone."""

from __future__ import annotations

import json

from nonneg_export.manifest_report import adaptation, quality, summary
from nonneg_runtime.manifest import Manifest

LICENSES = {"apache-2.0", "mit", "bsd-3-clause", "bsd-2-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0"}


def card(manifest: Manifest) -> str:
    """Write front matter for machines, then what the model is, its use, its origin and how good it is."""
    source = manifest.provenance
    parts = [
        _front_matter(manifest),
        f"# {manifest.name}\n\n{manifest.description or 'A non-negative, sparse image encoder.'}",
        f"Embeds images as {manifest.dimensions} non-negative numbers, most of them zero, best dimension first: any "
        "prefix is a shorter embedding.",
        _use(manifest),
        f"## Origin\n\n- weights: {source.weights} ({source.weights_license})\n- data: {source.data} "
        f"({source.data_license})" + (f"\n- {source.note}" if source.note else ""),
        f"## Facts\n\n```text\n{summary(manifest.model_copy(update={'quality': None, 'adaptation': None}))}\n```",
    ]
    if manifest.adaptation is not None:
        parts.append(f"## What the adaptation gained\n\n{adaptation(manifest.adaptation)}")
    if manifest.quality is not None:
        parts.append(f"## Quality by length\n\n{quality(manifest, manifest.quality)}")
    return "\n\n".join(parts) + "\n"


def _front_matter(manifest: Manifest) -> str:
    known = manifest.provenance.weights_license.lower()
    fields = {
        "license": known if known in LICENSES else "other",
        "library_name": "nonneg",
        "pipeline_tag": "image-feature-extraction",
        "tags": ["image-retrieval", "sparse-embeddings", "non-negative", "onnx"],
    }
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]  # JSON is YAML
    return "\n".join(["---", *lines, "---"])


def _use(manifest: Manifest) -> str:
    return f"""## Use

```console
$ nonneg pull SOURCE {manifest.name}
$ nonneg serve --model {manifest.name}
$ nonneg embed photos/ -o photos.npz
```

Vectors of this model carry the fingerprint `{manifest.fingerprint}`; vectors of another one cannot be compared with
them."""
