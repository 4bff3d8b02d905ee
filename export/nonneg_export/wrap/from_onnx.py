"""An ONNX image encoder as a tower: chosen among a repository's files, fetched, its features pooled."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from onnx import ModelProto

from nonneg_core.errors import BundleInvalid, ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_export.graphs.canonical import canonical
from nonneg_export.share.hub_repository import HubRepository, Remote
from nonneg_export.wrap.tower import Pooling, Tower
from nonneg_runtime.bundle.external_data import external_files
from nonneg_training.onnx_backbone.onnx_graph import load_graph
from nonneg_training.onnx_backbone.scaling_and_pooling import Pool, Scaling, output_of, with_scaling_and_pooling


@dataclass(frozen=True)
class OnnxInterface:
    """How an ONNX file is fed and what is taken of it."""

    encoder: Path
    view: View
    scaling: Scaling
    input_name: str | None = None
    output_name: str | None = None
    pool: Pool | None = None


def features(how: OnnxInterface) -> ModelProto:
    """Return the encoder with scaling before it and its own features as output."""
    return canonical(
        with_scaling_and_pooling(
            load_graph(how.encoder),
            how.view.size,
            how.scaling,
            input_name=how.input_name,
            output_name=how.output_name,
            pool=how.pool,
        )
    )


def tower(how: OnnxInterface) -> Tower:
    """Return the file as a tower."""
    check_pool(how)
    return Tower(features(how), how.view, weights=how.encoder.name)


def output_taken(how: OnnxInterface) -> str:
    """Return the name of the output that is taken."""
    return output_of(load_graph(how.encoder), how.output_name)


def answers_rows(how: OnnxInterface) -> bool:
    """Return whether the output that is taken is declared as one row an image."""
    model = load_graph(how.encoder)
    name = output_of(model, how.output_name)
    kind = next(value for value in model.graph.output if value.name == name).type.tensor_type
    return kind.HasField("shape") and len(kind.shape.dim) == 2


def check_pool(how: OnnxInterface) -> None:
    """Refuse a pooling of what is one row already."""
    if how.pool is not None and answers_rows(how):
        raise ConfigInvalid(
            f"output {output_taken(how)!r} is one row an image already, and --pool {how.pool} is for tokens or a map",
            fix="leave --pool out, or choose another output with --output",
            field="pool",
            value=how.pool,
        )


def by_family(how: OnnxInterface, family: Pooling) -> OnnxInterface:
    """Return the same with output and pooling of its architecture, where nothing was said."""
    if how.output_name is not None or how.pool is not None:
        check_pool(how)
        return how
    outputs = [value.name for value in load_graph(how.encoder).graph.output]
    named = [name for name in family.outputs if name in outputs]
    tokens = family.pool or (family.of_tokens or "cls" if not named and "last_hidden_state" in outputs else None)
    chosen = replace(how, output_name=named[0] if named else None)
    return chosen if answers_rows(chosen) else replace(chosen, pool=tokens)


# Which of a repository's ONNX files is taken: an image tower, in the precision that was asked for.

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
    candidates = []
    for name, remote in files.items():
        match = NAME.fullmatch(PurePosixPath(name).name)
        if match is None or match[1] not in ROLES or (match[2] or "") not in SUFFIXES:
            continue
        candidates.append(OnnxFile(name, ROLES[match[1]], SUFFIXES[match[2] or ""], remote.size))
    return sorted(candidates, key=lambda file: (ORDER.index(file.precision), file.name.count("/"), file.name))


def choose(
    files: Mapping[str, Remote], *, two_towers: bool, choice: str | None, role: str = "image"
) -> OnnxFile | None:
    """Return the file that was asked for by name or precision, else the first; None where there is none."""
    known = onnx_files(files)
    if choice is not None and choice not in ORDER:
        if choice not in files:
            raise ConfigInvalid(
                f"the repository has no file {choice!r}",
                fix=f"choose one of {', '.join(str(file) for file in known) or 'those it has'}",
                field="file",
                value=choice,
            )
        return next((file for file in known if file.name == choice), OnnxFile(choice, role, "fp32", files[choice].size))
    fitting = [file for file in known if file.role == role or (file.role == "whole" and not two_towers)]
    chosen = [file for file in fitting if choice in (None, file.precision)]
    if choice is not None and not chosen:
        raise ConfigInvalid(
            f"the repository has no ONNX file in {choice}",
            fix=f"choose one of {', '.join(map(str, fitting))}" if fitting else "leave --file out",
            field="file",
            value=choice,
        )
    return chosen[0] if chosen else None


# An ONNX file of a repository with the files of weights that it names, in one folder.


def gathered(paths: list[Path], place: Path) -> Path:
    """Return the first of the files, with the others beside it: the cache holds links, and onnx refuses these."""
    if len(paths) == 1:
        return paths[0]
    for path in paths:
        shutil.copyfile(path, place / path.name)
    return place / paths[0].name


def fetch_onnx(repository: HubRepository, chosen: OnnxFile) -> list[Path]:
    """Return the file, and the files of weights beside it that it names."""
    path = repository.fetch(chosen.name)
    paths, folder = [path], chosen.name.rpartition("/")[0]
    names = []
    for beside in sorted(_external(path, f"{chosen.name} of {repository}")):
        name = f"{folder}/{beside}" if folder else beside
        if name not in repository.files:
            raise DataInvalid(
                f"{chosen.name} of {repository} reads its weights from {beside!r}, which the repository does not have",
                fix="choose another file with --file",
                value=beside,
            )
        names.append(name)
    repository.check_together([chosen.name, *names])
    return [*paths, *map(repository.fetch, names)]


def _external(path: Path, what: str) -> set[str]:
    """Return the files that an ONNX file reads its weights from."""
    try:
        return set(external_files(path))
    except BundleInvalid as error:
        raise DataInvalid(
            f"{what} is not an ONNX model ({error.__cause__})",
            fix="choose another file with --file, or name another revision",
            field="file",
        ) from error
