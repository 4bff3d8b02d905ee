"""names.json: what dimensions are called, and on what evidence. This file writes it and reads it."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nonneg_core.errors import BundleInvalid

NAMES = "names.json"
LARGEST = 2**20  # bytes of the file
STRONGEST = 10  # photos of a dimension that its precision is the share of, at most
USUAL = (("common", ""), ("source", "direction"))


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


NameSource = Literal["direction", "captions", "atlas"]


class Name(_Record):
    """One dimension's name; the evidence is a precision, or where there are too few photos a rank, or nothing."""

    dimension: int = Field(ge=0)
    name: str = Field(min_length=1)
    common: str = Field(default="", description="what it is called in everyday words, where that differs")
    source: NameSource = Field(
        default="direction",
        description="direction: the column lies along a direction of the backbone's classifier; captions: a word "
        "that captions of most of its strongest photos say; atlas: the label of most of its examples in an atlas",
    )
    klass: int | None = Field(default=None, ge=0, alias="class", description="the classifier's class, of a direction")
    faithfulness: float | None = Field(default=None, description="cosine of a direction with its class's own")
    precision: float | None = Field(
        default=None, description="share of the name among its strongest photos, at most 10"
    )
    photos: int = Field(default=0, ge=0, description="of the name, among those that the precision was measured on")
    rank: int | None = Field(
        default=None,
        ge=1,
        description="place of the class's one photo, the column refitted without it: weaker evidence",
    )
    level: float | None = Field(
        default=None,
        description="deviations above the mean of ordinary photos from which on a photo shows what captions name; "
        "columns along classes have one level together",
    )

    @property
    def called(self) -> str:
        """The name, with the common one behind it where there is one."""
        return f"{self.name} ({self.common})" if self.common else self.name

    @property
    def evidence(self) -> str:
        """Why it has this name, in a few words."""
        if self.source == "atlas":
            return f"{self.precision:.0%} of its examples in the atlas have this label"
        if self.precision is not None:
            shown = min(STRONGEST, self.photos)
            return f"{round(self.precision * shown)} of its {shown} strongest photos show it, {self.photos} in all"
        if self.rank is not None:
            return f"the one photo of it, held out, comes {_ordinal(self.rank)} among those of all classes"
        return "no photos to check it on"


class Names(_Record):
    """The names of a model's dimensions."""

    format: Literal["nonneg-names-1"] = "nonneg-names-1"
    dimensions: int = Field(ge=1)
    precision_on: str = Field(description="the photos of `precision`, which neither named, fitted nor trained anything")
    rank_on: str = Field(description="the photos of `rank`")
    chosen_on: str = Field(default="", description="the photos that names from photos were chosen on")
    unnamed: str = Field(default="", description="why the other dimensions have no name")
    names: tuple[Name, ...]

    def write(self, path: Path) -> None:
        """Write it as JSON, a name a line."""
        record = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"names"})
        record = {"format": self.format, **record}
        lines = [json.dumps(_said(name)) for name in self.names]
        head = json.dumps(record, indent=1)[:-2]
        path.write_text(head + ',\n "names": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n", encoding="utf-8")


def read_names(path: Path, dimensions: int) -> Names:
    """Return the names in a file, which must be of a model with so many dimensions."""
    try:
        if path.stat().st_size > LARGEST:
            raise BundleInvalid(f"{path} is larger than {LARGEST} bytes", fix="copy or export the bundle again")
        record = Names.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BundleInvalid(f"{path} holds no names ({error})", fix="copy or export the bundle again") from error
    if record.dimensions != dimensions or any(name.dimension >= dimensions for name in record.names):
        raise BundleInvalid(
            f"{path} names dimensions of a model with {record.dimensions}, not {dimensions}",
            fix="take the file that was exported with this bundle",
            field="names",
            value=record.dimensions,
            limit=dimensions,
        )
    if len({name.dimension for name in record.names}) < len(record.names):
        raise BundleInvalid(f"{path} names a dimension twice", fix="export the bundle again", field="names")
    return record


def _said(name: Name) -> dict[str, Any]:
    """Return a name without what it does not say: a direction and no common name are the usual."""
    record = name.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {field: value for field, value in record.items() if (field, value) not in USUAL}


def _ordinal(place: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    end = "th" if place % 100 in (11, 12, 13) else ends.get(place % 10, "th")
    return "first" if place == 1 else f"{place}{end}"
