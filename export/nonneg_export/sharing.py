"""Bundles on their way: to and from a plain folder or a Hugging Face repository, verified at both ends."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from nonneg_export.model_card import card
from nonneg_export.published.address import hub_address
from nonneg_export.published.hub_errors import hub, reached
from nonneg_runtime.bundle import Bundle, check_free, open_bundle, staged
from nonneg_runtime.manifest import FILE_NAME, read_manifest

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


def pull(source: str, out: Path, *, replace: bool = False) -> Bundle:
    """Get a bundle from a folder or from hf:owner/name[@revision]; nothing is written unless all of it is right."""
    check_free(out, replace=replace)
    if not source.startswith(HUB):
        _copy(open_bundle(source), out, replace=replace)
        return open_bundle(out)
    library, where = hub(), hub_address(source)
    with reached(source):
        library.HfApi(library_name="nonneg").model_info(
            where.name, revision=where.rest, timeout=20
        )  # fails at once, not later
        # The manifest first: it says which files there are, so that nothing else is fetched.
        manifest = Path(library.hf_hub_download(where.name, FILE_NAME, revision=where.rest, library_name="nonneg"))
        wanted = [FILE_NAME, *read_manifest(manifest.parent).files]
        folder = library.snapshot_download(
            where.name, revision=where.rest, allow_patterns=wanted, library_name="nonneg"
        )
    _copy(open_bundle(folder), out, replace=replace)
    return open_bundle(out)


def _copy(bundle: Bundle, out: Path, *, replace: bool = False) -> None:
    """The bundle's own files and a fresh card, nothing else that may lie in its folder."""
    with staged(out, replace=replace) as folder:
        for name in (FILE_NAME, *bundle.manifest.files):
            shutil.copyfile(bundle.path / name, folder / name)
        (folder / CARD).write_text(card(bundle.manifest), encoding="utf-8")
        open_bundle(folder)
