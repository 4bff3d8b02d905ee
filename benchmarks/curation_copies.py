"""How many edited copies of photos `nonneg curate` finds, and how many pairs that it calls copies are not:
`python benchmarks/curation_copies.py FOLDER [--bundle B] [--edited 500] [--keep N]`.

Each of some photos of the folder is edited in seven ways (half size, cropped to 90 % of the sides, grey, JPEG of
quality 30, mirrored, cropped to 90 and 80 % anywhere) and put beside all photos of the folder. A pair is found if it is
among the copies; a pair of copies that stem from two photos is false, unless the folder holds one of them twice (their
thumbnails differ by less than 12 grey levels). A burst is not a copy: the camera has moved by at most 2 % of the
shorter side, and a thing of 25 or 35 % of it stands elsewhere. Which share of bursts is called copies stands in the
last lines.
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from nonneg_client.local import Encoder
from nonneg_core.files.image_files import find_images
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.pixel_checks import check_pixels
from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.neighbours import PairLimits, Pairs, Scan, copies, joined, scanned
from nonneg_vectors.storage.embeddings import Embeddings

OWN = 12.0  # grey levels that two photos differ by, root mean square over the thumbnail: the folder holds it twice
EDITS = (
    "half size", "crop 90 %", "grey", "JPEG 30", "mirrored", "crop 90 % anywhere", "crop 80 % anywhere",
    "burst, 25 % moved", "burst, 35 % moved",
)  # fmt: skip
BURSTS = 2  # of these, the last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bundle")
    parser.add_argument("--edited", type=int, default=500)
    parser.add_argument("--keep", type=int, help="how many values are stored of each vector")
    parser.add_argument("--save", type=Path, help="keep vectors and thumbnails here, to try other limits")
    parser.add_argument("--saved", type=Path, help="take what --save has kept here of the same folder")
    options = parser.parse_args()
    if options.saved:
        vectors = Embeddings.load(options.saved.with_suffix(".npz")).shorten(top_k=options.keep)
        origin = np.array([int(name) for name in vectors.ids or ()])
        photos = int((origin == np.arange(len(origin))).sum())
        thumbnails = np.load(options.saved.with_suffix(".npy"))
        print_table(options.folder, vectors, thumbnails, origin, photos, options.keep)
        return
    paths = find_images(options.folder)
    chosen = np.random.default_rng(0).choice(len(paths), min(options.edited, len(paths)), replace=False).tolist()
    photos = [decode(path.read_bytes()) for path in paths]
    rng = np.random.default_rng(1)
    edited = [image for i in chosen for image in edits(photos[i], rng)]
    origin = np.array([*range(len(paths)), *np.repeat(chosen, len(EDITS))])
    with Encoder(options.bundle) as encoder:
        vectors = encoder.embed([*photos, *edited], top_k=options.keep, progress=False)
    thumbnails = np.stack([np.frombuffer(check_pixels(image).thumbnail, np.uint8) for image in [*photos, *edited]])
    if options.save:
        vectors.named([str(o) for o in origin]).save(options.save.with_suffix(".npz"))
        np.save(options.save.with_suffix(".npy"), thumbnails)
    print_table(options.folder, vectors, thumbnails, origin, len(paths), options.keep)


def edits(photo: Image.Image, rng: np.random.Generator) -> list[Image.Image]:
    """Return the photo in seven other ways, and two bursts."""
    w, h = photo.size
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=30)
    return [
        photo.resize((max(1, w // 2), max(1, h // 2)), Image.Resampling.BICUBIC),
        photo.crop((w // 20, h // 20, w - w // 20, h - h // 20)),
        photo.convert("L").convert("RGB"),
        decode(buffer.getvalue()),
        photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        *(cropped(photo, scale, rng) for scale in (0.9, 0.8)),
        *(moments_later(photo, share, rng) for share in (0.25, 0.35)),
    ]


def cropped(photo: Image.Image, scale: float, rng: np.random.Generator) -> Image.Image:
    """Return a window of the photo, anywhere in it."""
    width, height = (round(side * scale) for side in photo.size)
    left, top = (int(rng.integers(whole - part + 1)) for whole, part in zip(photo.size, (width, height), strict=True))
    return photo.crop((left, top, left + width, top + height))


def moments_later(photo: Image.Image, share: float, rng: np.random.Generator) -> Image.Image:
    """Return the scene with a thing elsewhere, what was beside it in its place, from where the camera then was."""
    width, height = photo.size
    side, margin = round(share * min(width, height)), max(1, round(0.02 * min(width, height)))
    left, top = int(rng.integers(width - side)), int(rng.integers(height - side))
    right, low = left, top
    while abs(right - left) + abs(low - top) < 0.4 * side:
        right, low = int(rng.integers(width - side)), int(rng.integers(height - side))
    beside = left - side if left >= side else min(left + side, width - side)
    mask = Image.new("L", (side, side), 0)
    ImageDraw.Draw(mask).ellipse((0, 0, side - 1, side - 1), fill=255)
    mask = mask.filter(ImageFilter.GaussianBlur(side * 0.05))
    later = photo.copy()
    later.paste(photo.crop((beside, top, beside + side, top + side)), (left, top), mask)
    later.paste(photo.crop((left, top, left + side, top + side)), (right, low), mask)
    x, y = (int(v) for v in rng.integers(0, 2 * margin + 1, 2))
    return later.crop((x, y, width - 2 * margin + x, height - 2 * margin + y))


def print_table(
    folder: Path, vectors: Embeddings, thumbnails: np.ndarray, origin: np.ndarray, photos: int, keep: int | None
) -> None:
    """Found and false, by edit."""
    limits = PairLimits() if keep is None else PairLimits().of_cut_vectors()
    pairs, _, _ = joined(list(scanned(Scan(vectors, limits, k=1, thumbnails=thumbnails))))
    copied = pairs.where(copies(pairs, limits))
    same = origin[copied.one] == origin[copied.other]
    later = np.isin((np.stack([copied.one, copied.other]) - photos) % len(EDITS), range(len(EDITS))[-BURSTS:])
    burst = (later & (np.stack([copied.one, copied.other]) >= photos)).any(axis=0)  # their own lines tell of these
    everything, copied, true = copied, copied.where(~burst), same[~burst]
    own = ~true & (difference(thumbnails[origin[copied.one]], thumbnails[origin[copied.other]]) < OWN)
    rows, record = [], {}
    for number, name in enumerate(EDITS):
        there = np.arange(photos + number, len(origin), len(EDITS))
        cosine = np.array([float((vectors[origin[i]].numpy() @ vectors[i].numpy().T)[0, 0]) for i in there])
        found = np.array([is_found(everything, origin[i], i) for i in there])
        alike = cosine >= limits.similar
        low, middle = np.quantile(cosine, [0.05, 0.5])
        rows.append((name, low, middle, float(alike.mean()), float(found.mean())))
        record[name] = {"found": float(found.mean()), "cosine": [float(low), float(middle)]}
    print(table(["edit", "cosine, 5 %", "cosine, median", f"cosine >= {limits.similar}", "found as copies"], rows))
    false = float((~true & ~own).sum() / max(1, (~own).sum()))
    similar = pairs.where(~copies(pairs, limits))
    twice = len({frozenset(p) for p in zip(origin[copied.one[own]], origin[copied.other[own]], strict=True)})
    print(
        f"{len(copied)} pairs of copies; {twice} photos are in the folder twice; of the other pairs {false:.2%} false"
    )
    print(f"{len(similar)} pairs merely similar")
    names = {
        "folder": folder.name,
        "photos": photos,
        "keep": keep,
        "fingerprint": vectors.fingerprint,
        "limits": vars(limits),
    }
    print(json.dumps({**names, "edits": record, "pairs": len(copied), "false": false, "twice": twice}))


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Grey levels between two thumbnails as they are, root mean square: another judge than the likeness."""
    return np.sqrt(((one.astype(float) - other.astype(float)) ** 2).mean(axis=1))


def is_found(copied: Pairs, photo: int, copy: int) -> bool:
    """Return whether a photo and its copy are a pair."""
    return bool(((copied.one == photo) & (copied.other == copy)).any())


if __name__ == "__main__":
    main()
