"""Vectors as texts, and a text engine that finds photos by them."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from nonneg_core.errors import ConfigInvalid
from nonneg_vectors import Embeddings


def test_a_dimension_is_a_word_that_stands_the_more_often_the_stronger_it_is():
    z = np.float32([[0.9, 0, 0.03, 0.1], [0, 0, 0, 0], [0, 0.25, 0, 0]])
    embeddings = Embeddings.from_dense(z, fingerprint="f")
    assert embeddings.to_terms() == ["d0 d0 d2 d3", "", "d1"]
    assert embeddings.to_terms(levels=8) == ["d0 " * 7 + "d2 d3", "", "d1 d1 d1 d1"]
    assert embeddings.to_terms(levels=1) == ["d0 d2 d3", "", "d1"]
    with pytest.raises(ConfigInvalid, match="levels=0"):
        embeddings.to_terms(levels=0)


def test_a_name_is_one_word_and_a_dimension_whose_name_another_has_stays_a_number():
    embeddings = Embeddings.from_dense(np.ones((1, 6), np.float32), fingerprint="f")
    names = {0: "Golden Retriever", 1: "crane", 2: "crane", 3: "d5", 4: "--"}
    assert embeddings.to_terms(names, levels=1) == ["goldenretriever d1 d2 d3 d4 d5"]


def test_a_text_engine_finds_a_vector_by_its_own_terms(random_embeddings):
    vectors = random_embeddings(60, 64)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE photos USING fts5(terms)")
    database.executemany("INSERT INTO photos (rowid, terms) VALUES (?, ?)", enumerate(vectors.to_terms()))
    for i, text in enumerate(vectors[:20].to_terms()):
        asked = " OR ".join(text.split())
        ((row,),) = database.execute("SELECT rowid FROM photos WHERE photos MATCH ? ORDER BY rank LIMIT 1", (asked,))
        assert row == i
        word = text.split()[0]
        without = database.execute("SELECT rowid FROM photos WHERE photos MATCH ?", (f"({asked}) NOT {word}",))
        assert not (vectors.numpy()[[row for (row,) in without], int(word[1:])] > 0).any()
