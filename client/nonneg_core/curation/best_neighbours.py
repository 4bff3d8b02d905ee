"""The best few columns of every row, gathered from tiles of scores in any order."""

from __future__ import annotations

import numpy as np

from nonneg_core.curation.sparse_rows import Floats, Places

ScoredPlaces = tuple[Places, Places, Floats]  # row, column and score of each entry


class Best:
    """The columns with the largest scores of each row, over tiles, in order."""

    def __init__(self, rows: int, most: int) -> None:
        self._most = most
        self._least = np.full(rows, -np.inf, np.float32)  # what a column must reach to be among the best
        self.columns = np.full((rows, most), -1, np.int32)
        self.scores = np.full((rows, most), -np.inf, np.float32)

    def entries(self, start: int, stop: int | None = None) -> ScoredPlaces:
        """Return what is held of the rows from `start` on: row, column and score of each entry."""
        held = self.columns[start:stop]
        rows, ranks = np.nonzero(held >= 0)
        return rows + start, held[rows, ranks].astype(np.intp), self.scores[rows + start, ranks]

    def add(self, tile: Floats, start: int, left: int) -> None:
        """Take those of a tile, of rows from start and columns from left, that are among the best of its rows."""
        least = self._least[start : start + len(tile)]
        new = np.isneginf(least)
        if tile.shape[1] > self._most and new.any():
            least[new] = np.partition(tile[new], -self._most, axis=1)[:, -self._most]
        rows, columns = np.nonzero((tile >= least[:, None]) & (tile > -1))
        self.take(rows + start, columns + left, tile[rows, columns])

    def add_columns(self, tile: Floats, start: int, left: int) -> None:
        """Take the same of a transposed tile: its columns are rows from left on, its rows are columns from start on."""
        least = self._least[left : left + tile.shape[1]]
        new = np.isneginf(least)
        if len(tile) > self._most and new.any():
            least[new] = np.partition(tile[:, new], -self._most, axis=0)[-self._most]
        rows, columns = np.nonzero(tile >= least)
        self.take(columns + left, rows + start, tile[rows, columns])

    def take(self, rows: Places, columns: Places, scores: Floats) -> None:
        """Put entries among those that are held, each of which is new."""
        touched = np.unique(rows)
        held = self.columns[touched]
        there = held >= 0
        rows = np.concatenate([np.repeat(touched, there.sum(axis=1)), rows])
        columns = np.concatenate([held[there], columns])
        scores = np.concatenate([self.scores[touched][there], scores])
        rows, columns, scores, rank = ranked(rows, columns, scores)
        kept = rank < self._most
        self.columns[rows[kept], rank[kept]] = columns[kept]
        self.scores[rows[kept], rank[kept]] = scores[kept]
        full = rank == self._most - 1
        self._least[rows[full]] = scores[full]


def ranked(rows: Places, columns: Places, scores: Floats) -> tuple[Places, Places, Floats, Places]:
    """Sort entries by row, largest score first, then lowest column; return them and each one's place in its row."""
    order = np.lexsort((columns, -scores, rows))
    rows, columns, scores = rows[order], columns[order], scores[order]
    begins = np.searchsorted(rows, rows, side="left")
    return rows, columns, scores, np.arange(len(rows)) - begins
