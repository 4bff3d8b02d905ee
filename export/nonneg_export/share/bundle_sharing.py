"""Bundles on their way: to and from a folder or a Hugging Face repository, from a store; verified at both ends."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from nonneg_core.errors import BundleInvalid, ConfigInvalid, ConnectionFailed, DigestMismatch, NotFound
from nonneg_core.files.atomic import atomic_write, remove_abandoned
from nonneg_core.terminal.installing import needing
from nonneg_export.share.hub_repository import hub, hub_address, reached
from nonneg_export.share.model_card import card
from nonneg_runtime.bundle.bundle_folder import Bundle, check_free, open_bundle, staged, storing
from nonneg_runtime.bundle.external_data import external_files
from nonneg_runtime.bundle.manifest import FILE_NAME, Manifest, read_manifest
from nonneg_runtime.inference.runner import INPUT, OUTPUT

HUB = "hf:"
CARD = "README.md"


def push(bundle: Bundle, target: str, *, replace: bool = False, private: bool = False) -> str:
    """Put the bundle and its model card at `target`, a folder or hf:owner/name; where it is then."""
    if not target.startswith(HUB):
        _copy(bundle, Path(target), replace=replace)
        return target
    library, where = hub(), hub_address(target)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        folder = Path(place, "bundle")
        _copy(bundle, folder)
        what = f"{bundle.manifest.name} {bundle.manifest.version}, {bundle.manifest.fingerprint}"
        with reached(target):
            api = library.HfApi(library_name="nonneg")
            api.create_repo(where.name, repo_type="model", private=private or None, exist_ok=True)
            done = api.upload_folder(
                repo_id=where.name, folder_path=folder, revision=where.rest, commit_message=f"Push {what}"
            )
    return str(getattr(done, "commit_url", target))


def pull(source: str, out: Path, *, replace: bool = False, digest: str | None = None) -> Bundle:
    """Get a bundle from a folder, hf:owner/name[@revision] or s3://...; nothing is written unless it is right.

    digest: the manifest's; another bundle is refused, and where this one is at `out` already, nothing is fetched.
    """
    if digest is not None and is_there(out, digest):
        remove_abandoned(out)  # a run that was killed when it had written all
        return open_bundle(out)
    check_free(out, replace=replace)
    with ExitStack() as stack:
        bundle = open_bundle(_located(source, stack))
        if digest not in (None, bundle.manifest.digest):
            raise DigestMismatch(
                f"{source} has the digest {bundle.manifest.digest}, not {digest}",
                fix="pull the version that was pinned, or pin this one",
                field="digest",
                value=bundle.manifest.digest,
            )
        _copy(bundle, out, replace=replace)
    return open_bundle(out)


def is_there(out: Path, digest: str) -> bool:
    """Return whether a folder holds the whole bundle with this digest."""
    try:
        return open_bundle(out.absolute()).manifest.digest == digest
    except BundleInvalid:
        return False


def _located(source: str, stack: ExitStack) -> Path | str:
    """Return a folder with the bundle, on this machine."""
    if source.startswith(HUB):
        return _from_hub(source)
    return stack.enter_context(fetched(source)) if source.startswith(STORES) else source


def _from_hub(source: str) -> str:
    library, where = hub(), hub_address(source)
    with reached(source):
        library.HfApi(library_name="nonneg").model_info(
            where.name, revision=where.rest, timeout=20
        )  # fails at once, not later
        # The manifest first: it says which files there are, so that nothing else is fetched.
        manifest = Path(library.hf_hub_download(where.name, FILE_NAME, revision=where.rest, library_name="nonneg"))
        patterns = [FILE_NAME, *read_manifest(manifest.parent).files]
        return str(
            library.snapshot_download(where.name, revision=where.rest, allow_patterns=patterns, library_name="nonneg")
        )


def _copy(bundle: Bundle, out: Path, *, replace: bool = False) -> None:
    """Copy the bundle's own files and a fresh card, nothing else that may lie in its folder."""
    with staged(out, replace=replace) as folder:
        for name in (FILE_NAME, *bundle.manifest.files):
            shutil.copyfile(bundle.path / name, folder / name)
        (folder / CARD).write_text(card(bundle.manifest), encoding="utf-8")
        open_bundle(folder)


# Bundles in object stores, s3://bucket/folder and the like: fetched by pyarrow, with the machine's credentials.

STORES = ("s3://", "gs://", "abfs://")


@contextmanager
def fetched(source: str) -> Iterator[Path]:
    """Give a folder with the manifest of a bundle in a store and the files that it lists; nothing else is fetched."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        _fetch(source.rstrip("/"), Path(place))
        yield Path(place)


def _fetch(source: str, folder: Path) -> None:
    with needing(source, extra="cloud"):
        from pyarrow import fs
    try:
        system, root = fs.FileSystem.from_uri(source)
        names = [FILE_NAME]
        while names:
            name = names.pop()
            if PurePosixPath(name).name != name or "\\" in name:
                raise BundleInvalid(f"{source}: {name!r} leaves the bundle's folder", fix="do not use this bundle")
            fs.copy_files(
                f"{root}/{name}",
                str(folder / name),
                source_filesystem=system,
                destination_filesystem=fs.LocalFileSystem(),
            )
            if name == FILE_NAME:
                names = list(read_manifest(folder).files)
    except FileNotFoundError as error:
        raise NotFound(f"{source} holds no bundle ({error})", fix="check the address", value=source) from error
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            f"{source} cannot be read ({error})",
            fix="check the address, the rights and the credentials, which may have expired",
            value=source,
        ) from error


# A Triton model repository of a bundle: config.pbtxt, and the encoder as version 1 (or the next one).

MAX_BATCH = 32
MODEL = "model.onnx"


def write_repository(bundle: Bundle, repository: Path) -> Path:
    """Add the bundle to a model repository; the model's folder is its name, an existing one gets a new version."""
    if bundle.manifest.precision == "bf16":
        raise ConfigInvalid(
            "Triton's ONNX Runtime computes no bf16: it would answer other vectors under this fingerprint",
            fix="write the repository of the bundle it was made from",
            field="triton",
        )
    folder = repository / bundle.manifest.name
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        newest = max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=0)
        with staged(folder / str(newest + 1)) as place:
            shutil.copyfile(bundle.encoder, place / MODEL)
            for name in external_files(bundle.encoder):  # weights that lie beside the graph
                shutil.copyfile(bundle.path / name, place / name)
        with atomic_write(folder / "config.pbtxt") as temporary:
            temporary.write_text(config(bundle.manifest), encoding="utf-8")
    return folder


def config(manifest: Manifest) -> str:
    """Return config.pbtxt: the shapes, dynamic batching, and what a client must know to interpret the vectors."""
    side = manifest.view.size
    facts = {
        "fingerprint": manifest.fingerprint,
        "version": manifest.version,
        "activation": manifest.activation,
        "view": manifest.view.model_dump_json(),
    }
    parameters = "\n".join(
        f'parameters {{ key: "{key}" value {{ string_value: {_quoted(value)} }} }}' for key, value in facts.items()
    )
    return f"""\
name: {_quoted(manifest.name)}
platform: "onnxruntime_onnx"
max_batch_size: {MAX_BATCH}
input {{ name: "{INPUT}" data_type: TYPE_UINT8 dims: [ {side}, {side}, 3 ] }}
output {{ name: "{OUTPUT}" data_type: TYPE_FP32 dims: [ {manifest.dimensions} ] }}
dynamic_batching {{ max_queue_delay_microseconds: 0 }}
version_policy {{ latest {{ num_versions: 1 }} }}
{parameters}
"""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
