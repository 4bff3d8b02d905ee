"""The bundle that is certified, what its head is put on, and the bundle that judges."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_core.pixels.view import Pixels
from nonneg_export.adaptation.backbone import WIDEST
from nonneg_export.adaptation.letting_through import fits, is_signed, letting_through, taken_by
from nonneg_runtime.bundle import ENCODER, SHIPPED, Bundle, shipped_names, storing
from nonneg_runtime.head_file import read_head, write_head
from nonneg_runtime.inference.open_session import open_session
from nonneg_runtime.variants import open_variant

SEED = 20_261  # of the untrained head


class Certified:
    """The encoder of a bundle; where its head lies apart, also what that head is put on."""

    def __init__(self, bundle: Bundle, work: Path, callers: int) -> None:
        """Open the encoder of a bundle; `work` is a folder that lasts as long as this object."""
        self.head = head_apart(bundle)
        encoder, record = bundle.encoder, bundle.manifest.head
        self._signed = record is not None and is_signed(record)
        if self.head is not None and record is not None:
            encoder = work / bundle.file
            with storing(work):
                shutil.copyfile(bundle.encoder, encoder)
                write_head(letting_through(self.head, signed=self._signed), work / record.file)
        self._session = open_session(encoder, callers=callers, precision=bundle.manifest.precision)

    def rows(self, pixels: Pixels) -> Rows:
        """Return of a batch what the head takes where that lies apart, else the embedding."""
        found = np.asarray(self._session.run(pixels), dtype=np.float32)
        return found if self.head is None else taken_by(self.head, found, signed=self._signed)


def head_apart(bundle: Bundle) -> Head | None:
    """Return the head of a bundle, where it lies in a file of its own and what it takes fits through its columns."""
    record = bundle.manifest.head
    if record is None:
        return None
    head = read_head(bundle.path / record.file)
    return head if fits(head, signed=is_signed(record)) else None


def random_weight(features: int, columns: int) -> Rows:
    """Return the weights of an untrained head: directions drawn by chance, always the same."""
    found: Rows = np.random.default_rng(SEED).normal(size=(features, columns)).astype(np.float32)
    return found


def open_certified(path: str | Path | None) -> Bundle:
    """Return the bundle in its fastest form that computes rightly here."""
    bundle = open_variant(path, "auto")
    if bundle.manifest.dimensions > WIDEST:
        raise ConfigInvalid(
            f"{bundle.path} has {bundle.manifest.dimensions} dimensions, more than {WIDEST}",
            fix="certify a bundle of fewer; `nonneg rank --dimensions` makes one",
            field="bundle",
            value=bundle.manifest.dimensions,
            limit=WIDEST,
        )
    return bundle


def open_judge(path: str | Path | None, certified: Bundle) -> Bundle:
    """Return the bundle that judges; without a path a shipped one with another backbone."""
    if path is not None:
        judge = open_variant(path, "auto")
        _check_other(judge, certified)
        return judge
    for name in reversed(shipped_names()):
        judge = open_variant(SHIPPED / name, "auto")
        if not same_backbone(judge, certified):
            return judge
    raise ConfigInvalid(
        "all shipped models see photos through this one's network", fix="give a bundle with --judge", field="judge"
    )


def same_backbone(one: Bundle, other: Bundle) -> bool:
    """Return whether two bundles see photos through the same network, by its file or by what they were made from."""
    a, b = one.manifest, other.manifest
    related = {a.fingerprint, a.derived_from} & {b.fingerprint, b.derived_from} - {""}
    return bool(related) or a.files[ENCODER].sha256 == b.files[ENCODER].sha256


def _check_other(judge: Bundle, certified: Bundle) -> None:
    if same_backbone(judge, certified):
        raise ConfigInvalid(
            f"{judge.path} cannot judge {certified.manifest.name}: both see photos through the same network",
            fix="give another model with --judge, or none: a shipped one that differs is taken",
            field="judge",
            value=str(judge.path),
        )
