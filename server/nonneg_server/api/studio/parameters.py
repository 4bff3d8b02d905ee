"""What a client of /studio/… may ask for: names and meanings as everywhere else."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from nonneg_core.expressions.parse import MOST_CHARACTERS
from nonneg_server.requests.parameters import PositiveCount

DimensionNumber = Annotated[int, Field(ge=0)]
Several = DimensionNumber | Annotated[list[DimensionNumber], Field(min_length=1, max_length=64)] | None


class Sized(BaseModel):
    """At which length."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimensions: Annotated[PositiveCount | None, Field(description="Use this many of the model's dimensions.")] = None
    top_k: Annotated[PositiveCount | None, Field(description="Of those, each vector's largest this many.")] = None


class Paged(BaseModel):
    """Which part of a list."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limit: Annotated[int, Field(ge=1, le=500, description="So many.")] = 60
    offset: Annotated[int, Field(ge=0, description="From this place on.")] = 0


class Listed(Paged):
    """Photos by name."""

    name: Annotated[str | None, Field(description="Only the one that has this path within the folder.")] = None


class Searched(Sized):
    """A search of the indexed folder."""

    expression: Annotated[
        str | None,
        Field(
            max_length=MOST_CHARACTERS,
            description="`winter/cat.jpg + 2*dim:snow !dim:17`, as POST /query takes it; photos by their path within "
            "the folder, or by the id of an upload.",
        ),
    ] = None
    only: Annotated[Several, Field(description="In which all of these are active.")] = None
    tenth: Annotated[bool, Field(description="As if only each stored vector's largest tenth had been kept.")] = False
    limit: Annotated[int, Field(ge=1, le=500, description="Hits to answer.")] = 60
    offset: Annotated[int, Field(ge=0, description="From this hit on.")] = 0


class ComparedPair(Sized):
    """Two photos side by side."""

    a: Annotated[str, Field(description="A photo's id.")]
    b: Annotated[str, Field(description="Another's.")]
    limit: Annotated[int, Field(ge=1, le=200, description="Dimensions to list of each kind.")] = 12


class LocatedDimension(BaseModel):
    """Where a dimension comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: Annotated[DimensionNumber, Field(description="Of this dimension.")]


class Bars(Sized):
    """One photo's dimensions."""

    limit: Annotated[int, Field(ge=1, le=2048, description="Dimensions to list.")] = 24
    named: Annotated[bool, Field(description="Only those that have a name.")] = False


def several(given: int | list[int] | None) -> list[int]:
    """Return a parameter that may be one number or a list of them, as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, int) else given
