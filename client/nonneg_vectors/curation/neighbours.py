"""Every pair of vectors above a cosine, and each vector's nearest others, block by block so that a run can go on.

A block is some rows against all, or, of one collection whose products are computed in full, against the rows from its
own on. Each product then serves the nearest of both its rows. Pairs are exact: the short forms' inner products are
upper bounds (`projection`), what they let through is computed in full. Neighbours are exact up to `projection.EXACT`
rows. Beyond, the best by the bound are computed in full and put in order, and one that the bound ranks far below its
cosine's place can be missed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nonneg_core.arrays import Flags, Floats, Places
from nonneg_core.pixels.likeness import Thumbnails, coarse, likeness, mirrored
from nonneg_vectors.curation import row_blocks

AT_ONCE = 65_536  # pairs whose coarse thumbnails are compared one by one
MARGIN = 1e-4  # what rounding may take off a bound
CUT_COPY, CUT_CROP = 0.4, 0.6  # cosines of copies where vectors are cut: see `PairLimits`
CANDIDATES = 4  # times as many neighbours as are wanted are computed in full, where the bounds are not exact


@dataclass(frozen=True)
class PairLimits:
    """What makes two photos a pair.

    similar: they look alike from this cosine on. copy_cosine, copy_likeness: they are copies of one photo, where both
    the cosine and the likeness of the thumbnails are at least so large; crop_cosine, crop_likeness: or these two (a
    crop's thumbnail is never quite its window's). coarse: below `crop_cosine` thumbnails are only compared in full
    where their coarse forms correlate so much.
    """

    similar: float = 0.7
    copy_cosine: float = 0.5
    copy_likeness: float = 0.92
    crop_cosine: float = 0.7
    crop_likeness: float = 0.78
    coarse: float = 0.6

    @property
    def least(self) -> float:
        """The cosine below which no pair is a copy."""
        return min(self.copy_cosine, self.crop_cosine)

    def of_cut_vectors(self) -> "PairLimits":
        """Return limits for vectors of which only the largest entries are stored: their copies have smaller cosines."""
        return replace(self, copy_cosine=CUT_COPY, crop_cosine=CUT_CROP)


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows: numbers, cosines and the likeness of their thumbnails (-1 where it was not needed)."""

    one: Places
    other: Places
    cosine: Floats
    likeness: Floats

    def __len__(self) -> int:
        return len(self.one)

    def where(self, chosen: Flags) -> "Pairs":
        """Return the chosen pairs."""
        return Pairs(self.one[chosen], self.other[chosen], self.cosine[chosen], self.likeness[chosen])


@dataclass(frozen=True)
class Block:
    """What was found for the rows from `start` on, and for later ones against these."""

    start: int
    size: int  # rows of the collection
    k: int  # neighbours of a row that are wanted
    pairs: Pairs
    rows: Places  # with `columns` and `cosines`: neighbours of rows; among those of all blocks are each one's nearest
    columns: Places
    cosines: Floats


@dataclass(frozen=True)
class Tiling:
    """How the work is cut up, which changes nothing of what is found.

    rows, columns: of a tile. few: thumbnails are compared pair by pair where so small a share of a tile is left.
    exact, share: as `bounding` takes them.
    """

    rows: int = 2048
    columns: int = 4096
    few: float = 0.005
    exact: int = row_blocks.EXACT
    share: float = row_blocks.KEPT


class Scan:
    """One collection against itself, or against another; blocks can be asked for in any order, best from the first."""

    def __init__(
        self,
        rows: row_blocks.SparseRows,
        limits: PairLimits,
        *,
        k: int = 10,
        thumbnails: Thumbnails | None = None,
        others: row_blocks.SparseRows | None = None,
        other_thumbnails: Thumbnails | None = None,
        tiling: Tiling = Tiling(),
    ) -> None:
        self.rows, self.others = rows, rows if others is None else others
        self.limits, self.k = limits, k
        self._alone = others is None
        self.tiling = tiling
        self._bounds = row_blocks.bounding(rows, others, exact=tiling.exact, share=tiling.share)
        self._exact = self._bounds is None
        self._once = self._alone and self._exact  # each product is computed once, for both of its rows
        self._best = row_blocks.TopKAccumulator(row_blocks.count(rows), k if self._exact else CANDIDATES * k)
        self._certain = min(limits.similar, limits.crop_cosine)  # from here on thumbnails are compared in any case
        self._thumbnails = thumbnails
        self._other_thumbnails = thumbnails if others is None else other_thumbnails
        if self._thumbnails is not None and self._other_thumbnails is not None:
            self._coarse = coarse(self._thumbnails)
            self._other_coarse = coarse(self._other_thumbnails)
            self._turned = coarse(mirrored(self._other_thumbnails))

    def learn(self, block: Block) -> None:
        """Take over what an earlier run found: what is farther away is then passed over."""
        if self._once:
            self._best.take(block.rows, block.columns, block.cosines)

    def block(self, start: int) -> Block:
        """Find the pairs and neighbours of the rows from `start` on."""
        block = row_blocks.dense(self.rows, start, start + self.tiling.rows)
        stop, similar, first = start + len(block), [], start if self._once else 0
        for left in range(first, max(first + 1, row_blocks.count(self.others)), self.tiling.columns):
            tile = self._tile(block, start, left)
            if not self._alone or left + tile.shape[1] >= start:  # else its pairs were found from the other side
                similar.append(self._candidates(tile, start, left))
            if self._alone:
                _blank(tile, start, left)
            self._best.add(tile, start, left)
            if self._once:
                later = max(0, stop - left)
                self._best.add_columns(tile[:, later:], start, left + later)
        nearest = self._later(start, stop) if self._once else self._nearest(block, start)
        return Block(start, row_blocks.count(self.rows), self.k, self._pairs(block, start, similar), *nearest)

    def _tile(self, block: Floats, start: int, left: int) -> Floats:
        """Return the inner products of a block with the others from `left` on, or bounds above them."""
        if self._bounds is None:
            return block @ row_blocks.dense(self.others, left, left + self.tiling.columns).T
        return self._bounds[0][start : start + len(block)] @ self._bounds[1][left : left + self.tiling.columns].T

    def _candidates(self, tile: Floats, start: int, left: int) -> tuple[Places, Places, Floats]:
        """Return pairs of a tile that may be similar, or copies, with their bounds; within one collection each once."""
        known = self._thumbnails is not None and self._other_thumbnails is not None
        least = min(self.limits.similar, self.limits.least) if known else self.limits.similar
        near = tile >= least - MARGIN
        if known and np.count_nonzero(near) > self.tiling.few * tile.size:
            near &= self._alike(slice(start, start + len(tile)), slice(left, left + tile.shape[1]))
            near |= tile >= self._certain - MARGIN
            known = False
        one, other = np.nonzero(near)
        if self._alone:
            later = other + left > one + start
            one, other = one[later], other[later]
        if known:
            matching = tile[one, other] >= self._certain - MARGIN
            unsure = np.flatnonzero(~matching)
            matching[unsure] = self._pairs_alike(one[unsure] + start, other[unsure] + left)
            one, other = one[matching], other[matching]
        return one, other + left, tile[one, other]

    def _alike(self, rows: slice, columns: slice) -> Flags:
        """Return which coarse thumbnails of a tile correlate enough, mirrored or not."""
        plain = self._coarse[rows] @ self._other_coarse[columns].T
        return np.asarray(np.maximum(plain, self._coarse[rows] @ self._turned[columns].T) >= self.limits.coarse)

    def _pairs_alike(self, one: Places, other: Places) -> Flags:
        """Return which pairs have coarse thumbnails that correlate enough: less work than a tile if they are few."""
        alike = np.empty(len(one), bool)
        for begin in range(0, len(one), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            mine = self._coarse[one[some]]
            plain, turned = (np.einsum("ij,ij->i", mine, c[other[some]]) for c in (self._other_coarse, self._turned))
            alike[some] = np.maximum(plain, turned) >= self.limits.coarse
        return alike

    def _pairs(self, block: Floats, start: int, candidates: list[tuple[Places, Places, Floats]]) -> Pairs:
        one, other, cosine = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
        limits = (self.limits.similar, self.limits.copy_cosine, self.limits.crop_cosine)
        unsure = np.full(len(one), not self._exact)  # a bound, or so near a limit that rounding would decide
        for limit in limits:
            unsure |= np.abs(cosine - limit) <= MARGIN
        cosine[unsure] = row_blocks.against(block, one[unsure], self.others, other[unsure])
        alike = np.full(len(one), -1, np.float32)
        if self._thumbnails is not None and self._other_thumbnails is not None:
            look = cosine >= self._certain
            unlike = np.flatnonzero((cosine >= self.limits.least) & ~look)
            look[unlike] = self._pairs_alike(one[unlike] + start, other[unlike])
            alike[look] = likeness(self._thumbnails, one[look] + start, other[look], self._other_thumbnails)
        pairs = Pairs(one + start, other, cosine, alike)
        return pairs.where((cosine >= self.limits.similar) | copies(pairs, self.limits))

    def _later(self, start: int, stop: int) -> row_blocks.ScoredPlaces:
        """Return neighbours found by a block's products: of its rows among these and later ones, and of those."""
        rows, columns, cosines = self._best.entries(start)
        here = np.where(rows < stop, columns >= start, (columns >= start) & (columns < stop))
        return rows[here], columns[here], cosines[here]

    def _nearest(self, block: Floats, start: int) -> row_blocks.ScoredPlaces:
        """Return the neighbours of the block's rows among all others."""
        rows, columns, cosine = self._best.entries(start, start + len(block))
        if not self._exact:
            cosine = row_blocks.against(block, rows - start, self.others, columns)
        rows, columns, cosine, rank = row_blocks.ranked(rows, columns, cosine)
        leading = rank < self.k
        return rows[leading], columns[leading], cosine[leading]


def copies(pairs: Pairs, limits: PairLimits) -> Flags:
    """Return which pairs are copies of one photo."""
    whole = (pairs.cosine >= limits.copy_cosine) & (pairs.likeness >= limits.copy_likeness)
    return whole | ((pairs.cosine >= limits.crop_cosine) & (pairs.likeness >= limits.crop_likeness))


def scanned(scan: Scan) -> Iterator[Block]:
    """Yield all blocks, in order."""
    return (scan.block(start) for start in starts(row_blocks.count(scan.rows), scan.tiling.rows))


def starts(rows: int, step: int) -> range:
    """Return where the blocks of `step` rows begin; without any row there is one block."""
    return range(0, max(1, rows), step)


def joined(blocks: list[Block]) -> tuple[Pairs, Places, Floats]:
    """Join blocks to the pairs, neighbours and cosines of all rows; -1 and 0 where there are no more neighbours."""
    fields = [np.concatenate([getattr(b.pairs, name) for b in blocks]) for name in Pairs.__dataclass_fields__]
    best = row_blocks.TopKAccumulator(blocks[0].size, blocks[0].k)
    for block in blocks:
        best.take(block.rows, block.columns, block.cosines)
    there = best.columns >= 0
    return Pairs(*fields), best.columns.astype(np.intp), np.where(there, best.scores, 0).astype(np.float32)


def _blank(tile: Floats, start: int, left: int) -> None:
    """Let no row be its own neighbour."""
    rows = np.arange(len(tile))
    own = rows + start - left
    inside = (own >= 0) & (own < tile.shape[1])
    tile[rows[inside], own[inside]] = -2
