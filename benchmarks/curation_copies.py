"""How many edited copies of photos `nonneg curate` finds, and how many pairs that it calls copies are not:
`python benchmarks/curation_copies.py FOLDER [--bundle B] [--edited 500] [--keep N]`.

Each of some photos of the folder is edited in five ways (half size, cropped to 90 % of the sides, grey, JPEG of quality
30, mirrored) and put beside all photos of the folder. A pair is found if it is among the copies; a pair of
copies that stem from two photos is false, unless the folder holds one of them twice (their thumbnails differ by less
than 12 grey levels).
"""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from nonneg_client.local import Encoder
from nonneg_core.files.image_files import find_images
from nonneg_core.pixels.decode import decode
from nonneg_core.pixels.pixel_checks import check_pixels, standardised
from nonneg_core.terminal.tables import table
from nonneg_vectors.curation.neighbours import PairLimits, Pairs, Scan, copies, joined, scanned
from nonneg_vectors.storage.embeddings import Embeddings

OWN = 12.0  # grey levels that two photos differ by, root mean square over the thumbnail: the folder holds it twice
EDITS = ("half size", "crop 90 %", "grey", "JPEG 30", "mirrored")


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
    edited = [image for i in chosen for image in edits(photos[i])]
    origin = np.array([*range(len(paths)), *np.repeat(chosen, len(EDITS))])
    with Encoder(options.bundle) as encoder:
        vectors = encoder.embed([*photos, *edited], top_k=options.keep, progress=False)
    thumbnails = np.stack([np.frombuffer(check_pixels(image).thumbnail, np.uint8) for image in [*photos, *edited]])
    if options.save:
        vectors.named([str(o) for o in origin]).save(options.save.with_suffix(".npz"))
        np.save(options.save.with_suffix(".npy"), thumbnails)
    print_table(options.folder, vectors, thumbnails, origin, len(paths), options.keep)


def edits(photo: Image.Image) -> list[Image.Image]:
    """Return the photo in five other ways."""
    w, h = photo.size
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=30)
    return [
        photo.resize((max(1, w // 2), max(1, h // 2)), Image.Resampling.BICUBIC),
        photo.crop((w // 20, h // 20, w - w // 20, h - h // 20)),
        photo.convert("L").convert("RGB"),
        decode(buffer.getvalue()),
        photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    ]


def print_table(
    folder: Path, vectors: Embeddings, thumbnails: np.ndarray, origin: np.ndarray, photos: int, keep: int | None
) -> None:
    """Found and false, by edit."""
    limits = PairLimits() if keep is None else PairLimits().of_cut_vectors()
    pairs, _, _ = joined(list(scanned(Scan(vectors, limits, k=1, thumbnails=standardised(thumbnails)))))
    copied = pairs.where(copies(pairs, limits))
    true = origin[copied.one] == origin[copied.other]
    own = ~true & (difference(thumbnails[origin[copied.one]], thumbnails[origin[copied.other]]) < OWN)
    rows, record = [], {}
    for number, name in enumerate(EDITS):
        there = np.arange(photos + number, len(origin), len(EDITS))
        cosine = np.array([float((vectors[origin[i]].numpy() @ vectors[i].numpy().T)[0, 0]) for i in there])
        found = np.array([is_found(copied, origin[i], i) for i in there])
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
