"""The bundle that is certified and the one that judges, and photos and edited pictures through both."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from nonneg_core.arrays import Rows
from nonneg_core.errors import ConfigInvalid, DataInvalid, NonnegError
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.process.long_runs import bounded_map
from nonneg_export.adapt.backbone import WIDEST, has_room, head_inputs, is_signed, pass_through_head
from nonneg_export.adapt.photo_features import read_file
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_runtime.bundle.bundle_folder import ENCODER, SHIPPED, Bundle, shipped_names, storing
from nonneg_runtime.bundle.head_file import read_head, write_head
from nonneg_runtime.heads.head import Head
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.variants import open_variant
from nonneg_runtime.seeing.preprocess import Preprocessor
from nonneg_vectors.evaluation.certificate_splits import PastedPairs

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
                write_head(pass_through_head(self.head, signed=self._signed), work / record.file)
        self._session = open_session(encoder, callers=callers, precision=bundle.manifest.precision)

    def rows(self, pixels: Pixels) -> Rows:
        """Return of a batch what the head takes where that lies apart, else the embedding."""
        features = np.asarray(self._session.run(pixels), dtype=np.float32)
        return features if self.head is None else head_inputs(self.head, features, signed=self._signed)


def head_apart(bundle: Bundle) -> Head | None:
    """Return the head of a bundle, where it lies in a file of its own and what it takes fits through its columns."""
    record = bundle.manifest.head
    if record is None:
        return None
    head = read_head(bundle.path / record.file)
    return head if has_room(head, signed=is_signed(record)) else None


def random_weight(features: int, columns: int) -> Rows:
    """Return the weights of an untrained head: directions drawn by chance, always the same."""
    weight: Rows = np.random.default_rng(SEED).normal(size=(features, columns)).astype(np.float32)
    return weight


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


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class EncodedPhotos:
    """The photos that could be read, and what both encoders make of them."""

    paths: tuple[Path, ...]
    digests: tuple[str, ...]
    rows: Rows
    judged: Rows
    broken: tuple[tuple[Path, str], ...]


def read_photos(certified: Certified, view: View, judge: Bundle, photos: Photos, tick: Tick | None) -> EncodedPhotos:
    """Show every photo to both encoders; a broken one is left out and named."""
    viewer, judges = Preprocessor(view), Preprocessor(judge.manifest.view)
    session = open_session(judge.encoder, callers=available_cores(), precision=judge.manifest.precision)

    def see(path: Path) -> tuple[str, Rows, Rows] | str:
        try:
            data = read_file(path)
            row = certified.rows(viewer.pixels(data)[None])[0]
            return hashlib.sha256(data).hexdigest(), row, session.run(judges.pixels(data)[None])[0]
        except (NonnegError, OSError) as error:
            return " ".join(str(error).split()) or type(error).__name__

    outcomes = list(zip(photos.paths, _everyone(see, photos.paths, len(photos), tick), strict=True))
    readable = [(path, outcome) for path, outcome in outcomes if not isinstance(outcome, str)]
    broken = tuple((path, outcome) for path, outcome in outcomes if isinstance(outcome, str))
    if not readable:
        why = f" ({broken[0][0].name}: {broken[0][1]})" if broken else ""
        raise DataInvalid(
            f"none of the {len(photos)} images in {photos.folder} can be read{why}",
            fix="point to a folder of intact images",
            value=str(photos.folder),
        )
    return EncodedPhotos(
        tuple(path for path, _ in readable),
        tuple(outcome[0] for _, outcome in readable),
        np.stack([outcome[1] for _, outcome in readable]),
        np.stack([outcome[2] for _, outcome in readable]),
        broken,
    )


def read_pictures(
    certified: Certified, view: View, paths: tuple[Path, ...], pairs: PastedPairs, tick: Tick | None
) -> dict[str, Rows]:
    """Make the pictures of every pair and show them to the encoder, by kind."""
    if not pairs.possible:
        return {}
    viewer = Preprocessor(view)

    def see(pair: int) -> Rows:
        donor, host = (
            decode(paths[numbers[pair]].read_bytes(), background=view.background, at_least=2 * view.size)
            for numbers in (pairs.donor, pairs.host)
        )
        made = edited(donor, host, view.size, corner=pair)
        return np.concatenate([certified.rows(viewer.pixels(made[kind])[None]) for kind in KINDS])

    rows = np.stack(list(_everyone(see, range(len(pairs.donor)), len(pairs.donor), tick)))  # (pairs, kinds, width)
    return {kind: rows[:, i] for i, kind in enumerate(KINDS)}


def _everyone(work: Callable[[Item], Result], items: Iterable[Item], count: int, tick: Tick | None) -> Iterable[Result]:
    def begin(item: Item) -> Future[Result]:
        return pool.submit(work, item)

    with ThreadPoolExecutor(available_cores()) as pool:
        jobs = bounded_map(begin, items, ahead=8 * available_cores())
        for done, (_, job) in enumerate(jobs, start=1):
            yield job.result()
            if tick:
                tick(done, count)


# Pictures made of two photos: one pasted into the other, cropped back to it, and its colours exchanged.

KINDS = ("pasted", "cropped", "recoloured")


def edited(donor: Image.Image, host: Image.Image, side: int, corner: int) -> dict[str, Image.Image]:
    """Return the picture of each kind; both photos are seen by their central squares.

    pasted: the donor in one quarter of the host. cropped: that quarter alone, so that the host is gone. recoloured: the
    donor with red, green and blue exchanged in turn.
    """
    canvas, patch = square(host, 2 * side), square(donor, side)
    left, top = corner % 2 * side, corner // 2 % 2 * side
    canvas.paste(patch, (left, top))
    red, green, blue = square(donor, 2 * side).split()
    return {
        "pasted": canvas,
        "cropped": canvas.crop((left, top, left + side, top + side)),
        "recoloured": Image.merge("RGB", (green, blue, red)),
    }


def square(image: Image.Image, side: int) -> Image.Image:
    """Return the central square of a photo at this side."""
    short = min(image.size)
    left, top = (image.width - short) / 2, (image.height - short) / 2
    return image.resize((side, side), Image.Resampling.BICUBIC, (left, top, left + short, top + short))
