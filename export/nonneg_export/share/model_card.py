"""A model's name, version and licences as people state them, and the model card that hubs show."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid
from nonneg_export.share.manifest_report import adaptation, quality, summary
from nonneg_runtime.bundle.manifest import Manifest

LONGEST = 100  # letters of a name
NOT_STATED = "not stated"  # a licence


@dataclass(frozen=True)
class About:
    """What a person says about a model."""

    name: str
    version: str = "1"
    weights_license: str = NOT_STATED
    data_license: str = NOT_STATED


def name_after(out: Path) -> str:
    """Return the name that a bundle's folder gives its model."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", out.name.removesuffix(".bundle")).strip("-._")[:LONGEST] or "model"


# What a model's licence allows, as far as its card's short name tells.


def licence_of(card: dict[str, Any]) -> str:
    """Return the licence on a model card: its name where the short one is `other`."""
    short, name = card.get("license"), card.get("license_name")
    licence = name if short in (None, "other") and isinstance(name, str) else short
    if isinstance(licence, list):
        return ", ".join(map(str, licence))
    return str(licence) if licence else NOT_STATED


def check_licence(licence: str, target: str, *, accepted: str | None) -> str | None:
    """Refuse what forbids changed copies, unless accepted by name; a sentence where only some uses are allowed."""
    short = licence.lower()
    if "-nd" in short and accepted != licence:
        raise ConfigInvalid(
            f"{target} is under {licence}, which forbids passing on changed copies, and a bundle is one",
            fix=f"wrap it for your own use with --accept-license {licence}, or choose another model",
            field="license",
            value=licence,
        )
    if "-nc" in short or "non-commercial" in short or "noncommercial" in short or "research" in short:
        return f"{target} is under {licence}: not for commercial use, and its vectors likely neither"
    if licence == NOT_STATED:
        return f"{target} states no licence: ask its author before you use it for more than a trial"
    return None


# The model card: README.md as model hubs show it, written from the manifest alone.

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
