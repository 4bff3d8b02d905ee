"""A bundle: the folder that is a model. This file writes it, whole or not at all, and opens it, verified."""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nonneg_core.errors import BundleInvalid, DigestMismatch, StorageFailed
from nonneg_core.files.atomic import begun, exchange, remove_abandoned, storage_error
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.manifest import FILE_NAME, FileRecord, Manifest, read_manifest

ENCODER = "encoder.onnx"
SHIPPED = Path(__file__).parents[1] / "models"  # the models that come with nonneg, a folder each
DEFAULT = SHIPPED / "photo"
DEFAULT_NAME = "default"  # another name of it
PUBLISHED = ("hf:", "timm:", "open_clip:", "torchvision:")  # how addresses of others' models begin
MAX_ENCODER = 2**31  # protobuf's own limit
MAX_FILE = 2**34


@dataclass(frozen=True)
class Bundle:
    """A verified model folder."""

    path: Path
    manifest: Manifest
    file: str = ENCODER  # or that of a variant
    atlas: Path | None = None  # one that lies beside the bundle, but not a part of it
    written: int = 0  # when its manifest was, in seconds since the epoch

    @property
    def encoder(self) -> Path:
        return self.path / self.file

    @property
    def stored(self) -> int:
        """Bytes of the encoder and of what lies beside it."""
        head = self.manifest.head
        parts = [self.file, *([head.file] if head else [])]
        return sum(self.manifest.files[name].bytes for name in parts)


def open_bundle(path: str | os.PathLike[str] | None = None) -> Bundle:
    """Verify and open a bundle, or a model that comes with nonneg by its name; without a path, the default one."""
    folder = located(path)
    manifest = read_manifest(folder)
    if ENCODER not in manifest.files:
        raise BundleInvalid(f"{folder}: the manifest lists no {ENCODER}", fix="export the bundle again")
    for name, record in manifest.files.items():
        _verify(folder, name, record)
    try:
        _confined(folder, manifest)
        _complete(folder, manifest)
        written = int((folder / FILE_NAME).stat().st_mtime)
    except OSError as error:  # it was there a moment ago
        raise BundleInvalid(f"{folder} cannot be read ({error.strerror})", fix="put it back, then try again") from error
    return Bundle(folder, manifest, written=written)


def located(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a bundle: one that is there, else the model of that name that comes with nonneg."""
    if path is None:
        return DEFAULT
    _check_here(str(path))
    folder = Path(path)
    ours = DEFAULT if str(path) == DEFAULT_NAME else SHIPPED / folder
    plain = len(folder.parts) == 1 and not (folder / FILE_NAME).is_file()
    if plain and not ours.is_dir() and not folder.exists():
        raise BundleInvalid(
            f"{path} is neither a folder nor a model that comes with nonneg",
            fix=f"give {', '.join(shipped_names())}, or a folder that `nonneg export` wrote",
            field="model",
            value=str(path),
        )
    return ours if plain and ours.is_dir() else folder


def _check_here(name: str) -> None:
    """Refuse the address of a model that others publish: only what was verified here is opened."""
    if name.startswith(PUBLISHED) and not Path(name).exists():
        out = re.sub(r"[^A-Za-z0-9.-]+", "-", name.partition(":")[2].rpartition("/")[2]) or "model"
        raise BundleInvalid(
            f"{name} is a model that others publish, not a bundle",
            fix=f"wrap it first, `nonneg wrap {name} --calibrate photos/ --out {out}.bundle`, and give {out}.bundle; "
            "a bundle that was pushed there is fetched by `nonneg pull`",
            field="model",
            value=name,
        )


def shipped_names() -> tuple[str, ...]:
    """Return the models that come with nonneg, the default one first."""
    names = sorted(place.parent.name for place in SHIPPED.glob(f"*/{FILE_NAME}"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT.name))


def write_bundle(out: Path, manifest: Manifest, files: Mapping[str, Path], *, replace: bool = False) -> Bundle:
    """Seal `manifest` over `files` and put both at `out`; nothing is left there if anything fails."""
    with staged(out, replace=replace) as folder:
        for name, source in files.items():
            shutil.copyfile(source, folder / name)
        records = {name: record_of(folder / name) for name in sorted(files)}
        sealed = manifest.model_copy(update={"files": records}).sealed()
        (folder / FILE_NAME).write_text(sealed.to_json(), encoding="utf-8")
        opened = open_bundle(folder)  # what was written is what can be read
    return Bundle(out, sealed, written=opened.written)


@contextmanager
def staged(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `out` that takes its name when all went well, and vanishes when not."""
    check_free(out, replace=replace)
    with storing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        folder, handle = begun(out, folder=True)
    try:
        with storing(out):
            yield folder
            folder.chmod(0o755)
            _swap(folder, out)
            remove_abandoned(out)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)


def check_free(out: Path, *, replace: bool = False) -> None:
    """Refuse early what could not be written after hours of work."""
    if out.exists() and not replace:
        raise StorageFailed(f"{out} exists", fix="choose another name or pass --replace", value=str(out))
    parent = next(place for place in out.absolute().parents if place.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise StorageFailed(f"{out} cannot be written ({parent} is not writable)", fix="choose another place")


def record_of(path: Path) -> FileRecord:
    """Return a file's size and sha256."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(sha256=digest, bytes=path.stat().st_size)


def _swap(folder: Path, out: Path) -> None:
    """Put a folder in the place of another; where the disk cannot exchange two names, there is a moment with none."""
    if not out.exists():
        folder.rename(out)
        return
    if out.is_dir() and not out.is_symlink() and exchange(folder, out):
        return  # what is called `folder` now is removed as every temporary folder is
    old, handle = begun(out, folder=True)
    out.rename(old / "bundle")
    try:
        folder.rename(out)
    except OSError:
        (old / "bundle").rename(out)
        raise
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(old, ignore_errors=True)


def _verify(folder: Path, name: str, record: FileRecord) -> None:
    if PurePosixPath(name).name != name or name in ("", ".", "..") or "\\" in name or "\0" in name:
        raise BundleInvalid(f"{folder}: {name!r} leaves the bundle's folder", fix="do not use this bundle", field=name)
    path = folder / name
    if record.bytes > (limit := MAX_ENCODER if name == ENCODER else MAX_FILE):
        raise BundleInvalid(f"{path} has {record.bytes} bytes, more than {limit}", fix="do not use this bundle")
    try:
        found_stat = path.stat()
        size = found_stat.st_size if stat.S_ISREG(found_stat.st_mode) else -1
        actual = record_of(path) if size == record.bytes else None
    except FileNotFoundError:
        raise BundleInvalid(f"{folder} lacks {name}", fix="copy the whole folder again", field=name) from None
    except OSError as error:
        raise BundleInvalid(f"{path} cannot be read ({error.strerror})", fix="check the permissions") from error
    if actual is None or actual.sha256 != record.sha256:
        raise DigestMismatch(
            f"{path} is not the file that was exported "
            + (f"({size} bytes for {record.bytes})" if actual is None else "(its sha256 differs)"),
            fix="copy or export the bundle again",
            field=name,
        )


def _confined(folder: Path, manifest: Manifest) -> None:
    """Refuse a model that reads files which the manifest does not list: none leaves the folder, all are verified."""
    for location in external_files(folder / ENCODER):
        if location not in manifest.files:
            raise _strays(folder / ENCODER, location)


def _complete(folder: Path, manifest: Manifest) -> None:
    """Refuse a manifest that speaks of a file which it does not list."""
    spoken = [variant.file for variant in manifest.variants]
    if manifest.head is not None:
        spoken += [manifest.head.file, *([manifest.head.spread] if manifest.head.spread else [])]
    if manifest.names is not None:
        spoken.append(manifest.names.file)
    if manifest.lexicon is not None:
        spoken.append(manifest.lexicon.file)
    if manifest.text is not None:
        spoken += [manifest.text.file, manifest.text.tokenizer]
    if manifest.sentences is not None:
        spoken += [manifest.sentences.file, manifest.sentences.head]
    for name in spoken:
        if name not in manifest.files:
            raise BundleInvalid(
                f"{folder}: the manifest speaks of {name} and does not list it",
                fix="export the bundle again",
                field=name,
            )
    graphs = [variant.file for variant in manifest.variants] + ([manifest.text.file] if manifest.text else [])
    for graph in graphs:
        for location in external_files(folder / graph):
            if location not in manifest.files:
                raise _strays(folder / graph, location)


def _strays(encoder: Path, location: str) -> BundleInvalid:
    return BundleInvalid(
        f"{encoder} reads external data from {location!r}, which is not a listed file of the bundle",
        fix="do not use this bundle",
        field=encoder.name,
        value=location,
    )


@contextmanager
def storing(out: Path) -> Iterator[None]:
    """Turn an error of the operating system into StorageFailed."""
    try:
        yield
    except OSError as error:
        raise storage_error(out, error) from error
