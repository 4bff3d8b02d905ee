"""Where a model is published: a file, a repository of the Hugging Face hub, or a name in a package of models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nonneg_core.errors import ConfigInvalid

SourceKind = Literal["file", "hf", "timm", "open_clip", "torchvision"]
FORMS = "FILE.onnx, hf:owner/name[@revision], timm:NAME, open_clip:NAME/TAG or torchvision:NAME"


@dataclass(frozen=True)
class ModelAddress:
    """`rest` is a revision of the hub, or a tag of open_clip."""

    kind: SourceKind
    name: str
    rest: str | None = None

    def __str__(self) -> str:
        joint = {"hf": "@", "open_clip": "/"}.get(self.kind, "")
        prefix = "" if self.kind == "file" else f"{self.kind}:"
        return f"{prefix}{self.name}{joint + self.rest if self.rest else ''}"


def address(text: str) -> ModelAddress:
    """Return what a command's MODEL names; a file that is there wins over a name."""
    prefix, colon, name = text.partition(":")
    if not colon or Path(text).exists():
        looks_like_a_name = re.fullmatch(r"[a-z][a-z0-9_]*", text) is not None
        return ModelAddress("torchvision" if looks_like_a_name and not Path(text).exists() else "file", text)
    if prefix == "hf":
        return hub_address(text)
    if prefix == "open_clip" and re.fullmatch(r"[^/]+/[^/]+", name):
        architecture, _, tag = name.partition("/")
        return ModelAddress("open_clip", architecture, tag)
    if prefix in ("timm", "torchvision") and name:
        return ModelAddress("timm" if prefix == "timm" else "torchvision", name)
    raise ConfigInvalid(f"{text!r} names no model", fix=f"write {FORMS}", field="model", value=text)


def hub_address(text: str) -> ModelAddress:
    """Read hf:owner/name, or hf:owner/name@revision."""
    repository, _, revision = text.removeprefix("hf:").partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository) or ".." in repository:
        raise ConfigInvalid(
            f"{text} names no repository", fix="write hf:owner/name or hf:owner/name@revision", value=text
        )
    return ModelAddress("hf", repository, revision or None)
