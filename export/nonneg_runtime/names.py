"""names.json: what dimensions are called, and on what evidence. This file writes it and reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nonneg_core.errors import BundleInvalid

NAMES = "names.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Name(_Record):
    """One dimension's name; the evidence is a precision, or where there are too few photos a rank, or nothing."""

    dimension: int = Field(ge=0)
    name: str = Field(min_length=1)
    klass: int = Field(ge=0, alias="class", description="the classifier's class that the column lies along")
    faithfulness: float = Field(description="cosine of the column with its class's own direction")
    precision: float | None = Field(
        default=None, description="share of the name among its strongest photos, at most 10"
    )
    photos: int = Field(default=0, ge=0, description="of the class, among those that the precision was measured on")
    rank: int | None = Field(
        default=None,
        ge=1,
        description="place of the class's one photo, the column refitted without it: weaker evidence",
    )


class Names(_Record):
    """The names of a model's dimensions."""

    format: Literal["nonneg-names-1"] = "nonneg-names-1"
    dimensions: int = Field(ge=1)
    precision_on: str = Field(description="the photos of `precision`, which neither named, fitted nor trained anything")
    rank_on: str = Field(description="the photos of `rank`")
    names: tuple[Name, ...]

    def write(self, path: Path) -> None:
        """As JSON, a name a line."""
        record = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"names"})
        lines = [json.dumps(name.model_dump(mode="json", by_alias=True, exclude_none=True)) for name in self.names]
        head = json.dumps(record, indent=1)[:-2]
        path.write_text(head + ',\n "names": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n", encoding="utf-8")


def read_names(path: Path, dimensions: int) -> Names:
    """The names in a file, which must be of a model with so many dimensions."""
    try:
        found = Names.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BundleInvalid(f"{path} holds no names ({error})", fix="copy or export the bundle again") from error
    if found.dimensions != dimensions or any(name.dimension >= dimensions for name in found.names):
        raise BundleInvalid(
            f"{path} names dimensions of a model with {found.dimensions}, not {dimensions}",
            fix="take the file that was exported with this bundle",
            field="names",
            value=found.dimensions,
            limit=dimensions,
        )
    return found
