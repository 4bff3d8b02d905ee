"""Which of a repository's ONNX files is taken: an image tower, in the precision that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nonneg_core.errors import ConfigInvalid
from nonneg_export.published.repository import Remote

SUFFIXES = {"": "fp32", "fp16": "fp16", "int8": "int8", "uint8": "int8", "quantized": "int8"}
ORDER = ("fp32", "fp16", "int8")  # what is taken first where nothing is said
ROLES = {"vision_model": "image", "image_encoder": "image", "visual": "image", "text_model": "text", "textual": "text",
         "model": "whole"}  # fmt: skip
NAME = re.compile(r"(.+?)(?:_(fp16|int8|uint8|quantized|q4|q4f16|bnb4|[a-z]*\d+))?\.onnx")


@dataclass(frozen=True)
class OnnxFile:
    """A file of a repository, by its name alone."""

    name: str
    role: str  # image, text or whole
    precision: str
    size: int | None

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.precision}, {'size unknown' if self.size is None else f'{self.size / 2**20:.1f} MB'})"
        )


def onnx_files(files: Mapping[str, Remote]) -> list[OnnxFile]:
    """Return the ONNX files whose name tells what they are, best first."""
    found = []
    for name, remote in files.items():
        match = NAME.fullmatch(PurePosixPath(name).name)
        if match is None or match[1] not in ROLES or (match[2] or "") not in SUFFIXES:
            continue
        found.append(OnnxFile(name, ROLES[match[1]], SUFFIXES[match[2] or ""], remote.size))
    return sorted(found, key=lambda file: (ORDER.index(file.precision), file.name.count("/"), file.name))


def choose(files: Mapping[str, Remote], *, two_towers: bool, asked: str | None, role: str = "image") -> OnnxFile | None:
    """Return the file that was asked for by name or precision, else the first; None where there is none."""
    known = onnx_files(files)
    if asked is not None and asked not in ORDER:
        if asked not in files:
            raise ConfigInvalid(
                f"the repository has no file {asked!r}",
                fix=f"choose one of {', '.join(str(file) for file in known) or 'those it has'}",
                field="file",
                value=asked,
            )
        return next((file for file in known if file.name == asked), OnnxFile(asked, role, "fp32", files[asked].size))
    fitting = [file for file in known if file.role == role or (file.role == "whole" and not two_towers)]
    chosen = [file for file in fitting if asked in (None, file.precision)]
    if asked is not None and not chosen:
        raise ConfigInvalid(
            f"the repository has no ONNX file in {asked}",
            fix=f"choose one of {', '.join(map(str, fitting))}" if fitting else "leave --file out",
            field="file",
            value=asked,
        )
    return chosen[0] if chosen else None
