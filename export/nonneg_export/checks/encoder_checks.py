"""What must hold before a bundle is written; each check is recorded in the manifest with what it found."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Floats, Numbers, Rows
from nonneg_core.errors import CheckFailed
from nonneg_core.pixels.view import Pixels, View
from nonneg_core.shortening import unit
from nonneg_export.calibrate.column_ranking import rounded
from nonneg_export.calibrate.photo_folder import load_pixels
from nonneg_runtime.bundle.evidence import Check, Golden
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.inference.runner import Runner, test_pattern

TOLERANCE = 1e-5  # between two entries of vectors of length one
PHOTOS = 16
BATCH = 7
LEAST_COSINE = 0.9999
AT_THE_GATE = 1e-4  # share of the entries


def samples(paths: Sequence[Path], view: View) -> Pixels:
    """Return a few of the photos, spread over all of them, and the test pattern: mixed content."""
    pixels = [load_pixels(path, view)[0] for path in evenly_spread(paths, PHOTOS)]
    return np.concatenate([np.stack(pixels), test_pattern(view.size)])  # (photos + 1, size, size, 3)


def evenly_spread(paths: Sequence[Path], count: int) -> list[Path]:
    """Choose so many of them, spread over all."""
    return [paths[i * len(paths) // count] for i in range(count)] if len(paths) > count else list(paths)


def answers(run: Callable[[Pixels], Rows], pixels: Pixels) -> Rows:
    """Return the rows for all pixels, a few at a time: large batches cost memory, not time."""
    return np.concatenate([run(pixels[i : i + BATCH]) for i in range(0, len(pixels), BATCH)])


def agrees_with_torch(by_torch: Rows, rows: Rows) -> Check:
    """Check that the encoder answers what the checkpoint answers."""
    return _close("torch", "ONNX Runtime against torch, on real photos", by_torch, rows)


def features_agree(by_original: Rows, rows: Rows, which: str) -> Check:
    """Check that the features before any head are those of the framework that the model comes from."""
    cosines = (unit(by_original) * unit(rows)).sum(axis=1)
    what = f"1 - least cosine of the features to the original framework's, on {which}"
    return must_hold(Check(name="torch", what=what, value=max(0.0, 1 - float(cosines.min())), limit=1 - LEAST_COSINE))


def texts_ignore_each_other(alone: Rows, together: Rows) -> Check:
    """Check that a text's features do not depend on the rest of its batch."""
    return _close("batch", f"a text alone against batches of {len(together)}", alone, together)


def ignores_batch_mates(session: Runner, pixels: Pixels, together: Rows | None = None) -> Check:
    """Check that a vector does not depend on the rest of its batch; `together`: its answers, where they are known."""
    alone = np.concatenate([session.run(one[None]) for one in pixels])
    together = answers(session.run, pixels) if together is None else together
    other_company = answers(session.run, pixels[::-1])[::-1]
    worst = max((together, other_company), key=lambda rows: difference(alone, rows))
    return _close("batch", f"a batch of 1 against batches of {BATCH} and of mixed content", alone, worst)


def emits_the_ranking(plain: Rows, ranked: Rows, order: Numbers) -> Check:
    """Check that the columns are those of the unranked encoder, in rank order."""
    return _close("ranking", "ranked columns against selection from the unranked encoder", plain[:, order], ranked)


def computes_the_head(computed: Rows, ranked: Rows) -> Check:
    """Check that the columns are what the head makes of the features, computed apart from any graph, in rank order."""
    cosines = (unit(computed) * unit(ranked)).sum(axis=1)[ranked.any(axis=1)]
    what = "1 - least cosine of the ranked columns to the head computed on the same features"
    return must_hold(
        Check(name="ranking", what=what, value=max(0.0, 1 - float(cosines.min(initial=1))), limit=1 - LEAST_COSINE)
    )


def prefix_is_export(full: Rows, short: Callable[[int], Rows]) -> Check:
    """Check that the first k columns are what an export of k columns answers."""
    columns = full.shape[1]
    lengths = sorted({1, max(1, columns // 4), max(1, columns // 2)})
    worst = max(((full[:, :k], short(k)) for k in lengths), key=lambda pair: difference(*pair))
    return _close("prefix", f"the first {', '.join(map(str, lengths))} columns against exports of so many", *worst)


def difference(a: Rows, b: Rows) -> float:
    """Return the largest difference between two entries of the row-normalised vectors.

    A value that lies at its gate up to rounding is in one of them and absent from the other: a few such are left out.
    """
    jumped = (a > 0) != (b > 0)
    if 0 < jumped.mean() <= AT_THE_GATE:
        a, b = np.where(jumped, 0, a), np.where(jumped, 0, b)
    return float(np.abs(unit(a) - unit(b)).max(initial=0))


class CachedRunner:
    """A session that computes one image at a time, and each only once."""

    def __init__(self, session: Runner) -> None:
        self.providers = session.providers
        self._session = session
        self._known: dict[bytes, Rows] = {}

    def run(self, pixels: Pixels) -> Rows:
        """Return the row of one image, (1, D)."""
        name = hashlib.sha256(pixels.tobytes()).digest()
        if name not in self._known:
            self._known[name] = self._session.run(pixels)
        return self._known[name]


def _close(name: str, what: str, a: Rows, b: Rows) -> Check:
    return must_hold(Check(name=name, what=what, value=difference(a, b), limit=TOLERANCE))


def must_hold(check: Check) -> Check:
    """Return the check, unless it failed."""
    if not check.value <= check.limit:
        raise CheckFailed(
            f"check {check.name!r} failed: {check.what}: {check.value:.3g}, allowed {check.limit:.3g}",
            fix="no bundle was written; a module that depends on its batch or on the time of day cannot be exported",
            field=check.name,
            value=check.value,
            limit=check.limit,
        )
    return check


# Recording the golden vector: what the encoder answers to the test pattern on the machine that exports it.


def record(encoder: Path, size: int, precision: str = "fp32") -> Golden:
    """Return the answer of this machine, at recorded precision."""
    return recorded(open_session(encoder, precision=precision).run(test_pattern(size))[0])


def recorded(z: Floats) -> Golden:
    """Return an answer to the test pattern, (D,), at recorded precision."""
    active = np.flatnonzero(z > 0)
    return Golden(indices=tuple(active.tolist()), values=rounded(z[active]))
