"""A text tower beside an image tower: the same head behind it, or columns of its own in the image tower's order."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from nonneg_core.arrays import Numbers, Rows
from nonneg_core.errors import DataInvalid
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.shortening import unit
from nonneg_export.calibrate.column_ranking import rounded
from nonneg_export.checks.encoder_checks import features_agree, texts_ignore_each_other
from nonneg_export.graphs.canonical import canonical, save
from nonneg_export.graphs.columns import select_columns, width
from nonneg_export.graphs.head_layers import refer_to_head, with_root_head
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle
from nonneg_runtime.bundle.evidence import Check, Golden
from nonneg_runtime.bundle.head_file import HEAD, read_head, write_head
from nonneg_runtime.bundle.manifest import SentenceRecord, TextRecord
from nonneg_runtime.inference import text_tower
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.words.names import NAMES, read_names
from nonneg_training.onnx_backbone.onnx_graph import load_graph

TEXT, TOKENIZER = "text.onnx", "tokenizer.json"
TEXT_FEATURES = "text-features.onnx"  # the tower before its head
SAMPLES = 200  # texts that the towers' gap is measured on
ALIKE = 1 - 1e-5  # least cosine of any to the mean of all, from which on texts are one
FEW = 16  # of these are compared with the original framework, one by one and together


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """tokens -> features or columns; `reference` is what the original answers, where it is at hand."""

    model: ModelProto
    tokenizer: str  # the content of its file
    length: int
    pad: int
    reference: Callable[[text_tower.Tokens], Rows] | None = None
    checks: tuple[Check, ...] = ()  # that held already

    def reader(self) -> text_tower.Tokenizer:
        """Return what turns texts into tokens."""
        return text_tower.Tokenizer(self.tokenizer, self.length, self.pad)


def beside(text: TextEncoder, images: Rows, place: Path) -> TextRecord:
    """Write text.onnx and its tokenizer beside the encoder and its head; `images`: features that it was computed from.

    The two towers of CLIP-like models lie apart (the modality gap): all texts differ from all images in one direction.
    The texts' mean is moved to the images', so that the head sees what differs between texts.
    """
    rows = text.reader().rows(samples(), truncate=True)
    save(text.model, place / TEXT_FEATURES)
    session = Session(place / TEXT_FEATURES, threads=available_cores(), takes=text_tower.TOKENS)
    features = np.concatenate([session.run(rows[i : i + FEW]) for i in range(0, len(rows), FEW)])
    _check_apart(features)
    few = rows[:FEW]
    alone = np.concatenate([session.run(row[None]) for row in few])
    shift = unit(images).mean(axis=0) - unit(features).mean(axis=0)
    model = canonical(
        with_root_head(text.model, read_head(place / HEAD), takes="directions", shift=shift.astype(np.float32))
    )
    refer_to_head(model, place)
    save(model, place / TEXT)
    (place / TOKENIZER).write_text(text.tokenizer, encoding="utf-8")
    checks = [texts_ignore_each_other(alone, features[: len(few)])]
    if text.reference is not None:
        checks.insert(0, features_agree(text.reference(few), alone, f"{len(few)} texts"))
    return described(place, text.reader(), tuple(checks))


def check_width(text: TextEncoder, images: ModelProto) -> None:
    """Refuse two towers of unequal width."""
    if width(text.model) != width(images):
        raise DataInvalid(
            f"the image tower answers {width(images)} columns and the text tower {width(text.model)}",
            fix="take two towers of one model",
            value=width(text.model),
            limit=width(images),
        )


def _check_apart(features: Rows) -> None:
    """Refuse a tower to which all texts are one: it looks for a token that its tokenizer does not give."""
    directions = unit(features)
    if (directions @ directions.mean(axis=0)).min() > ALIKE:
        raise DataInvalid(
            f"the text tower answers all of {len(features)} texts alike: its tokenizer is another model's",
            fix="take the tokenizer of the same model, or wrap the image tower alone with --no-text",
        )


def described(place: Path, reader: text_tower.Tokenizer, checks: tuple[Check, ...]) -> TextRecord:
    """Return what a manifest says of the text tower whose files lie in `place`."""
    z = Session(place / TEXT, takes=text_tower.TOKENS).run(reader.rows([text_tower.GOLDEN], truncate=True))[0]
    active = np.flatnonzero(z > 0)
    return TextRecord(
        file=TEXT,
        tokenizer=TOKENIZER,
        length=reader.length,
        pad=reader.pad or 0,
        golden=Golden(indices=tuple(active.tolist()), values=rounded(z[active])),
        checks=checks,
    )


def samples() -> list[str]:
    """Return texts as people write them, of many things."""
    names = read_names(SHIPPED / "photo" / NAMES, 2048).names
    chosen = [names[i * len(names) // SAMPLES].name for i in range(SAMPLES)]
    return [f"a photo of a {name}" for name in chosen]


# A text tower that makes its own columns: they are put in the order that ranks the image tower's.


def in_order(text: TextEncoder, order: Numbers, place: Path) -> TextRecord:
    """Write text.onnx, its columns in this order, and its tokenizer."""
    save(canonical(select_columns(text.model, order)), place / TEXT)
    (place / TOKENIZER).write_text(text.tokenizer, encoding="utf-8")
    return described(place, text.reader(), text.checks or _verified(text, order, place))


def _verified(text: TextEncoder, order: Numbers, place: Path) -> tuple[Check, ...]:
    rows = text.reader().rows(samples()[:FEW], truncate=True)
    session = Session(place / TEXT, takes=text_tower.TOKENS)
    alone = np.concatenate([session.run(row[None]) for row in rows])
    checks = [texts_ignore_each_other(alone, session.run(rows))]
    if text.reference is not None:
        checks.insert(0, features_agree(text.reference(rows)[:, order], alone, f"{len(rows)} texts"))
    return tuple(checks)


def columns_of(bundle: Bundle) -> TextEncoder | None:
    """Return the text tower of a bundle, its head within; None where it has none."""
    record = bundle.manifest.text
    if record is None:
        return None
    tokenizer = (bundle.path / record.tokenizer).read_text(encoding="utf-8")
    return TextEncoder(
        load_graph(bundle.path / record.file), tokenizer, record.length, record.pad, checks=record.checks
    )


def carried_sentences(bundle: Bundle, work: Path, order: Sequence[int] | None = None) -> SentenceRecord | None:
    """Write a bundle's map of sentences, and its head beside an encoder that has it within; `order`: of the columns."""
    record = bundle.manifest.sentences
    if record is None:
        return None
    shutil.copyfile(bundle.path / record.file, work / text_tower.MAP)
    head = read_head(bundle.path / record.head)
    chosen = slice(None) if order is None else list(order)
    write_head(
        replace(head, weight=head.weight[:, chosen], bias=head.bias[chosen]),
        work / text_tower.HEAD_OF_SENTENCES,
    )
    return record.model_copy(update={"file": text_tower.MAP, "head": text_tower.HEAD_OF_SENTENCES})
