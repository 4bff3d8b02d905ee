"""manifest.json: what a bundle says about itself. This file writes it and reads it."""

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from nonneg_core.errors import BundleInvalid, DigestMismatch, FingerprintMismatch, ParameterInvalid, SchemaUnknown
from nonneg_core.pixels.view import View
from nonneg_runtime.bundle import evidence

SCHEMA_VERSION = 1
FILE_NAME = "manifest.json"
MAX_BYTES = 64 * 2**20
SHORTEST_PIN = 8  # characters of a fingerprint that a request may name a model by
# Fields that bundles of schema 1 did not have from the start.
CAME_LATER = ("head", "variants", "names", "kept", "lexicon", "text", "sentences", "adaptation", "certificate")
RankedBy = Literal["expected-activation", "frequency", "variance", "nested", "none"]
Precision = Literal["fp32", "fp16", "int8", "bf16"]  # fp16: of the stored weights; the others: of what computes


class FileRecord(evidence.ManifestRecord):
    """One file of the bundle."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)


class Provenance(evidence.GrownRecord):
    """Where weights and data come from, and what may be done with them."""

    came_later = ("fetched",)

    weights: str
    weights_license: str
    data: str
    data_license: str
    note: str = ""
    fetched: dict[str, str] | None = Field(
        default=None, description="sha256 of each file that came from a hub, by repository, commit and name"
    )


class Columns(evidence.ManifestRecord):
    """Per column, in the order the encoder emits them: the evidence for that order."""

    original: tuple[int, ...] = Field(description="the column's index before the ranking permuted it")
    expected_activation: tuple[float, ...] = Field(description="mean of the row-normalised feature")
    frequency: tuple[float, ...] = Field(description="share of calibration images on which it is > 0")
    variance: tuple[float, ...] = Field(description="variance of the row-normalised feature")


class Calibration(evidence.GrownRecord):
    """The images that the ranking was measured on."""

    came_later = ("decode", "resize")

    images: int = Field(ge=1)
    data: str
    split: str = ""
    digest: str = Field(description="sha256 over the images' own digests, in order")
    ranked_by: RankedBy = "expected-activation"
    decode: Literal["fast"] | None = Field(
        default=None, description="as `nonneg serve --decode` names it; None: not said"
    )
    resize: Literal["simd", "pillow"] | None = Field(default=None, description="what resized them; None: Pillow")


class AtlasRecord(evidence.ManifestRecord):
    """What atlas.sqlite was made from and how much it holds."""

    data: str
    digest: str = Field(description="sha256 over the images' own digests, in order")
    searched: int = Field(description="images that were looked at")
    images: int = Field(description="of which so many are kept as thumbnails")
    examples: int = Field(description="images a dimension, at most")
    thumbnail: int = Field(description="longer side in pixels, at most")
    named: int = Field(description="dimensions with a suggested name")


class NamesRecord(evidence.GrownRecord):
    """The file of names that some of the dimensions have, each with its evidence."""

    came_later = ("first_512", "stability")

    file: str
    named: int = Field(ge=0, description="dimensions with a name")
    checked: int = Field(ge=0, description="of which so many were checked on photos that nothing was fitted on")
    data: str = Field(description="those photos")
    first_512: int | None = Field(default=None, ge=0, description="of the first 512 dimensions, those with a name")
    stability: evidence.StabilityRecord | None = Field(
        default=None, description="over seeds, measured when the model was built"
    )


class LexiconRecord(evidence.ManifestRecord):
    """The file of words that stand for dimensions."""

    file: str
    words: int = Field(ge=0, description="how many, synonyms and hypernyms among them")
    source: str = Field(description="where the words come from, and whose they are")


class HeadRecord(evidence.ManifestRecord):
    """The layer behind the backbone, whose weights lie in a file of their own, and what it was computed from."""

    file: str = Field(description="safetensors: weight (features, D), bias (D,), gate (D,)")
    spread: str = Field(default="", description="safetensors: mean and covariance of the features it was fitted on")
    takes: Literal["roots", "features", "directions"] = Field(
        description="square roots of the pooled features, these, or these at a length of one"
    )
    power: float = Field(gt=0, le=1, description="an active column is (x weight + bias)^power")
    trained: int = Field(default=0, ge=0, description="so many columns in front were trained, the others computed")


class TextRecord(evidence.ManifestRecord):
    """The second tower: text in the same space as the images."""

    file: str = Field(description="in: `tokens`, int64 [batch, length]; out: `embedding`, as the encoder's")
    tokenizer: str = Field(description="of the package tokenizers: data, not code")
    length: int = Field(ge=1, le=65_536, description="tokens that it takes, the shorter texts padded")
    pad: int = Field(ge=0, description="the number of the token that fills up")
    golden: evidence.Golden = Field(description="its answer to the text of the self-test")
    checks: tuple[evidence.Check, ...] = ()
    data: str = Field(default="", description="the captioned images of `recall`")
    recall: tuple[evidence.RecallRow, ...] = ()
    raw: evidence.RecallRow | None = Field(
        default=None, description="the same of both towers' own features, before the head"
    )


class SentenceRecord(evidence.ManifestRecord):
    """A map from a sentence encoder, which lies once in the package, to what the model's head takes."""

    file: str = Field(description="safetensors: weight (sentence, features), bias, mean, golden")
    head: str = Field(description="the file of the head that makes columns of the features")
    encoder: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of the sentence encoder's graph")
    tokenizer: str = Field(pattern="^[0-9a-f]{64}$", description="sha256 of its tokenizer")
    weights: str = Field(description="what the encoder is, and whose")
    data: str = Field(description="the captioned photos that the map was fitted on")
    license: str = Field(description="of both")


class AdaptationRecord(evidence.ManifestRecord):
    """How a head was adapted to photos, and what that gained and lost on photos it was not fitted on."""

    source: str = Field(description="the bundle that was adapted, by name")
    photos: int = Field(ge=1, description="that the head was fitted on")
    judged: int = Field(ge=0, description="other photos, by which it was judged; none of them a copy of those")
    classes: int = Field(default=0, ge=0, description="of labelled photos that it was fitted on; 0: without labels")
    mean: float = Field(description="share of the photos' mean, where ordinary photos have the rest")
    covariance: float = Field(description="the same of the covariance whose axes come first")
    labels: float = Field(default=0.0, description="the same of the spread within classes, by which rows are whitened")
    gains: tuple[evidence.Gain, ...]
    verdict: str


class Variant(evidence.ManifestRecord):
    """The same model in another precision, whose vectors lie in the same space: they have one fingerprint."""

    precision: Literal["int8"]
    file: str = Field(description="its encoder, in this bundle")
    golden: evidence.Golden
    checks: tuple[evidence.Check, ...] = Field(description="the measured loss")


class Manifest(evidence.ManifestRecord):
    """A bundle's description; `fingerprint` names the vectors, `digest` seals the whole."""

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str
    description: str = ""
    dimensions: int = Field(ge=1, le=1_000_000)
    activation: str
    precision: Precision = "fp32"
    derived_from: str = Field(default="", description="fingerprint of the bundle that this one was made from")
    view: View
    provenance: Provenance
    columns: Columns
    calibration: Calibration
    golden: evidence.Golden
    checks: tuple[evidence.Check, ...] = ()
    quality: evidence.Quality | None = None
    kept: evidence.Kept | None = Field(default=None, description="of a wrapped encoder's own features")
    atlas: AtlasRecord | None = None
    head: HeadRecord | None = None
    text: TextRecord | None = None
    sentences: SentenceRecord | None = None
    variants: tuple[Variant, ...] = Field(default=(), description="fastest first")
    names: NamesRecord | None = None
    lexicon: LexiconRecord | None = None
    adaptation: AdaptationRecord | None = None
    certificate: evidence.CertificateRecord | None = None
    files: dict[str, FileRecord]
    fingerprint: str = ""
    digest: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> "Manifest":
        for name, column in self.columns:
            if len(column) != self.dimensions:
                raise ValueError(f"columns.{name} has {len(column)} entries for {self.dimensions} dimensions")
        if len(self.golden.indices) != len(self.golden.values):
            raise ValueError("golden.indices and golden.values differ in length")
        return self

    @property
    def takes_texts(self) -> bool:
        """Whether texts have vectors beside the images'."""
        return self.text is not None or self.sentences is not None

    def check_pin(self, given: str) -> None:
        """Raise unless `NAME@FINGERPRINT` holds the first eight characters of this fingerprint or more, or no @."""
        _, at, pin = given.partition("@")
        if at and len(pin) < SHORTEST_PIN:
            raise ParameterInvalid(
                f"model={given!r} holds {len(pin)} characters of a fingerprint",
                fix=f"give at least {SHORTEST_PIN} behind @, as in {self.pinned}",
                field="model",
                value=given,
                limit=SHORTEST_PIN,
            )
        if not self.fingerprint.startswith(pin):
            raise FingerprintMismatch(
                f"{given} was asked for, and the model here is {self.pinned}",
                fix="ask a server of that model, or embed what is stored again: nonneg index PHOTOS -o NEW",
                field="model",
                value=given,
                limit=self.fingerprint,
            )

    @property
    def pinned(self) -> str:
        """The name with the beginning of the fingerprint, as a request may ask for exactly this model."""
        return f"{self.name}@{self.fingerprint[:SHORTEST_PIN]}"

    def sealed(self) -> "Manifest":
        """Return this manifest with its fingerprint and digest computed."""
        named = self.model_copy(update={"fingerprint": _fingerprint(self), "digest": ""})
        return named.model_copy(update={"digest": _sha256(_canonical(named.record()))})

    def to_json(self) -> str:
        return json.dumps(self.record(), indent=1, ensure_ascii=False) + "\n"

    def record(self) -> dict[str, Any]:
        """Write it: a field that came later is left out where it says nothing, so that older digests hold."""
        unsaid = {name for name in CAME_LATER if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=unsaid)


def read_manifest(folder: Path) -> Manifest:
    """Return the verified manifest of a bundle folder."""
    path = folder / FILE_NAME
    raw = _read(path, folder)
    layout = raw.get("schema_version")
    if layout != SCHEMA_VERSION:
        raise SchemaUnknown(
            f"{path} has schema version {layout!r}; this nonneg reads {SCHEMA_VERSION}",
            fix="upgrade nonneg, or export the bundle again",
            field="schema_version",
            value=layout if isinstance(layout, (int, str)) else None,
            limit=SCHEMA_VERSION,
        )
    try:
        manifest = Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "manifest"
        raise BundleInvalid(f"{path}: {where}: {first['msg']}", fix="export the bundle again", field=where) from error
    sealed = manifest.sealed()
    if (sealed.fingerprint, sealed.digest) != (manifest.fingerprint, manifest.digest):
        raise DigestMismatch(
            f"{path} was changed after it was written (its digest does not match)",
            fix="export or download the bundle again",
            field="digest",
            value=manifest.digest,
        )
    return manifest


def _read(path: Path, folder: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BundleInvalid(f"{path} is larger than {MAX_BYTES} bytes", fix="export the bundle again")
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        there = "has no manifest.json" if folder.is_dir() else "does not exist or is not a folder"
        raise BundleInvalid(
            f"{folder} is not a bundle: it {there}", fix="point to a folder that `nonneg export` wrote"
        ) from None
    except OSError as error:
        raise BundleInvalid(f"{path} cannot be read ({error.strerror})", fix="check the permissions") from error
    except (ValueError, RecursionError) as error:
        raise BundleInvalid(f"{path} is not JSON ({error})", fix="export or download the bundle again") from error
    if not isinstance(raw, dict):
        raise BundleInvalid(f"{path} holds no JSON object", fix="export the bundle again")
    return raw


VECTORS = ("encoder", "head.", "text.", "tokenizer.")  # how the files begin that vectors depend on


def _fingerprint(manifest: Manifest) -> str:
    """Name what the vectors depend on: encoder, view and width. Evidence beside them does not change it."""
    variants = {variant.file for variant in manifest.variants}
    parts = sorted(name for name in manifest.files if name.startswith(VECTORS) and name not in variants)
    encoder = {name: manifest.files[name].sha256 for name in parts}
    view = manifest.view.model_dump(mode="json")
    named = {"encoder": encoder, "view": view, "dimensions": manifest.dimensions}
    if manifest.precision == "bf16":  # the same file, computed otherwise
        named["precision"] = "bf16"
    return _sha256(_canonical(named))[:32]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
