"""Every operation in one table: what it takes, what it answers, in which dialect it fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel

from nonneg_server.answers import as_arrow, as_msgpack, as_npy
from nonneg_server.documentation import requests, wire
from nonneg_server.documentation.requests import Schema
from nonneg_server.requests.parameters import Comparison, Parameters

_FAILURES: dict[str, type[BaseModel]] = {
    "native": wire.Failure,
    "openai": wire.OpenAIFailure,
    "cohere": wire.CohereFailure,
    "kserve": wire.KServeFailure,
}
_BINARY: Schema = {"schema": {"type": "string", "format": "binary"}}
_FORMS: Schema = {form.MEDIA_TYPE: _BINARY for form in (as_msgpack, as_npy, as_arrow)}


@dataclass(frozen=True)
class Operation:
    """A path and method, documented."""

    answer: type[BaseModel] | None  # None where it is no JSON
    dialect: str = "native"
    body: Schema | None = None
    query: list[Schema] = field(default_factory=list)
    others: Schema = field(default_factory=dict)  # further media types of the answer

    @property
    def failure(self) -> type[BaseModel]:
        return _FAILURES[self.dialect]


def operations() -> dict[tuple[str, str], Operation]:
    """By method and path."""
    infer = Operation(wire.KServeAnswer, "kserve", requests.kserve(), others={"application/octet-stream": _BINARY})
    parameters = requests.query(Parameters)
    return {
        ("POST", "/embed"): Operation(
            wire.EmbedAnswer, body=requests.images(Parameters), query=parameters, others=_FORMS
        ),
        ("POST", "/shorten"): Operation(wire.EmbedAnswer, body=requests.vectors(), query=parameters, others=_FORMS),
        ("POST", "/explain"): Operation(
            wire.ExplainAnswer, body=requests.images(Comparison, 2), query=requests.query(Comparison)
        ),
        ("GET", "/models"): Operation(wire.ModelList),
        ("GET", "/models/{model}"): Operation(wire.ModelDetails),
        ("GET", "/models/{model}/dimensions/{dimension}"): Operation(wire.DimensionDetails),
        ("GET", "/models/{model}/dimensions/{dimension}/examples/{example}"): Operation(
            None, others={"image/*": _BINARY}
        ),
        ("GET", "/livez"): Operation(wire.Health),
        ("GET", "/readyz"): Operation(wire.Health),
        ("GET", "/info"): Operation(wire.TeiInfo),
        ("POST", "/v1/embeddings"): Operation(wire.OpenAIEmbeddings, "openai", requests.openai()),
        ("GET", "/v1/models"): Operation(wire.OpenAIModels, "openai"),
        ("GET", "/v1/models/{model}"): Operation(wire.OpenAIModel, "openai"),
        ("POST", "/v2/embed"): Operation(wire.CohereAnswer, "cohere", requests.cohere()),
        ("GET", "/v2"): Operation(wire.KServeServer, "kserve"),
        ("GET", "/v2/health/live"): Operation(wire.KServeLive, "kserve"),
        ("GET", "/v2/health/ready"): Operation(wire.KServeReady, "kserve"),
        ("GET", "/v2/models/{model}"): Operation(wire.KServeModel, "kserve"),
        ("GET", "/v2/models/{model}/versions/{version}"): Operation(wire.KServeModel, "kserve"),
        ("GET", "/v2/models/{model}/ready"): Operation(wire.KServeModelReady, "kserve"),
        ("GET", "/v2/models/{model}/versions/{version}/ready"): Operation(wire.KServeModelReady, "kserve"),
        ("POST", "/v2/models/{model}/infer"): infer,
        ("POST", "/v2/repository/index"): Operation(wire.KServeIndex, "kserve"),
        ("POST", "/v2/repository/models/{model}/load"): Operation(wire.KServeDone, "kserve"),
        ("POST", "/v2/repository/models/{model}/unload"): Operation(wire.KServeDone, "kserve"),
        ("POST", "/v2/models/{model}/versions/{version}/infer"): infer,
    }
