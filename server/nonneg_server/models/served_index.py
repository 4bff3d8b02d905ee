"""The index that POST /search answers from: its model, what it is asked, and its hits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nonneg_core.errors import (
    ConfigInvalid,
    DataInvalid,
    ModelNotFound,
    NotFound,
    ParameterInvalid,
)
from nonneg_runtime.words.column_facts import names_of, statistics_of
from nonneg_server.models.explanation import Queried
from nonneg_server.models.served_models import Registry
from nonneg_server.requests.parameters import Search
from nonneg_vectors.search.first_stage import import_faiss
from nonneg_vectors.search.index import Index
from nonneg_vectors.search.query_and_hits import Hit, Query


class ServedIndex:
    """An index in a folder, with the names and statistics of its model once that is loaded."""

    def __init__(self, path: Path) -> None:
        import_faiss()  # what is missing is told before the first search
        self.index = Index.open(path)
        self._path = path
        self._knows = ""

    @property
    def dimensions(self) -> int:
        """How many its vectors have."""
        return self.index.description.dimensions

    def model(self, registry: Registry) -> str:
        """Return the name under which its model is served."""
        described = self.index.description
        for engine in registry.all():
            if engine.bundle.manifest.fingerprint == described.fingerprint:
                if self._knows != engine.bundle.manifest.digest:
                    self.index.names = names_of(engine.bundle)
                    self.index.know(statistics_of(engine.bundle))
                    self._knows = engine.bundle.manifest.digest
                return engine.name
        raise ModelNotFound(
            f"{self._path} holds vectors of {described.model} ({described.fingerprint[:8]}), which is not served here",
            fix=f"serve it: --model {described.model}, or the folder of its bundle",
            field="model",
            value=described.model,
        )


def index_of(state: Any) -> ServedIndex:
    """Return the index of an application; NotFound where it has none."""
    index: ServedIndex | None = state.index
    if index is None:
        raise NotFound("this server has no index to search", fix="start it with --index photos.index", field="index")
    return index


def searched(state: Any, index: ServedIndex, meaning: Queried, search: Search) -> dict[str, Any]:
    """Return the answer of POST /search."""
    query = Query(
        meaning.expression, meaning.resolved, meaning.dimensions, meaning.manifest.fingerprint, meaning.chance
    )
    options = search.model_dump(exclude={"k"})
    try:
        hits = index.index.search(query, search.k, **options)
    except (ConfigInvalid, DataInvalid) as error:
        raise ParameterInvalid(error.message, fix=error.fix, field=error.field, value=error.value) from error
    return {
        "model": meaning.manifest.name,
        "fingerprint": meaning.manifest.fingerprint,
        "dimensions": meaning.dimensions,
        "exact": hits.exact,
        "hits": [_as_json(state, hit) for hit in hits],
    }


def _as_json(state: Any, hit: Hit) -> dict[str, Any]:
    reasons = [{"dimension": d, "name": hit.names.get(d), "part": part} for d, part in hit.reasons]
    payload = dict(hit.payload)
    written = {"id": hit.id, "score": hit.score, "match": hit.match, "payload": payload, "reasons": reasons}
    if state.folder is not None and (row := state.folder.by_name.get(hit.id)) is not None:
        written["thumbnail"] = f"/studio/photos/{state.folder.ids[row]}/thumbnail"
    return written
