"""Every operation in one table: what it takes, what it answers, in which dialect it fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel

from nonneg_server.answers import as_arrow, as_msgpack, as_npy
from nonneg_server.api.native import bodies as requests
from nonneg_server.api.native import schemas as wire
from nonneg_server.api.native.bodies import Schema
from nonneg_server.documentation import foreign
from nonneg_server.requests.parameters import Comparison, Parameters

_FAILURES: dict[str, type[BaseModel]] = {
    "native": wire.Failure,
    "openai": foreign.OpenAIFailure,
    "cohere": foreign.CohereFailure,
    "kserve": foreign.KServeFailure,
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
    infer = Operation(foreign.KServeAnswer, "kserve", requests.kserve(), others={"application/octet-stream": _BINARY})
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
        ("GET", "/info"): Operation(foreign.TeiInfo),
        ("POST", "/v1/embeddings"): Operation(foreign.OpenAIEmbeddings, "openai", requests.openai()),
        ("GET", "/v1/models"): Operation(foreign.OpenAIModels, "openai"),
        ("GET", "/v1/models/{model}"): Operation(foreign.OpenAIModel, "openai"),
        ("POST", "/v2/embed"): Operation(foreign.CohereAnswer, "cohere", requests.cohere()),
        ("GET", "/v2"): Operation(foreign.KServeServer, "kserve"),
        ("GET", "/v2/health/live"): Operation(foreign.KServeLive, "kserve"),
        ("GET", "/v2/health/ready"): Operation(foreign.KServeReady, "kserve"),
        ("GET", "/v2/models/{model}"): Operation(foreign.KServeModel, "kserve"),
        ("GET", "/v2/models/{model}/versions/{version}"): Operation(foreign.KServeModel, "kserve"),
        ("GET", "/v2/models/{model}/ready"): Operation(foreign.KServeModelReady, "kserve"),
        ("GET", "/v2/models/{model}/versions/{version}/ready"): Operation(foreign.KServeModelReady, "kserve"),
        ("POST", "/v2/models/{model}/infer"): infer,
        ("POST", "/v2/repository/index"): Operation(foreign.KServeIndex, "kserve"),
        ("POST", "/v2/repository/models/{model}/load"): Operation(foreign.KServeDone, "kserve"),
        ("POST", "/v2/repository/models/{model}/unload"): Operation(foreign.KServeDone, "kserve"),
        ("POST", "/v2/models/{model}/versions/{version}/infer"): infer,
    }
