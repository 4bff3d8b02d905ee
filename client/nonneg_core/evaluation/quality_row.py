"""One row of a quality report: retrieval at one length, as it is measured and as a manifest keeps it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Selection = Literal["expected-activation", "random", "variance", "pca", "features"]
Asking = Literal["cut", "whole", "re-ranked"]


class QualityRow(BaseModel):
    """Retrieval at one length, for one way to choose the dimensions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    selection: Selection
    dimensions: int
    top_k: int | None = None
    p_at_1: float
    p_at_10: float = Field(description='what the NCL authors call "mAP@10"')
    map_at_k: float
    knn: float
    zero_share: float = Field(description="share of the vectors of which nothing is left")
    mean_nnz: float
    bytes: float = Field(description="a vector: float32 dense, or 2-byte index and float16 value, whichever is smaller")
    asked: Asking = Field(
        default="cut", description="queries: cut as what is stored; whole; whole, which then order the first 200"
    )

    @model_serializer(mode="wrap")
    def _without_the_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out how rows were asked where it is the usual: rows of before it was said keep their digests."""
        record: dict[str, Any] = handler(self)
        if self.asked == "cut":
            record.pop("asked", None)
        return record
