"""Bundles on their way: to and from a plain folder or a Hugging Face repository, verified at both ends."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, ConnectionFailed, MissingExtra, NonnegError, NotFound
from nonneg_core.installing import extra_hint
from nonneg_export.model_card import card
from nonneg_runtime.bundle import Bundle, check_free, open_bundle, staged
from nonneg_runtime.manifest import FILE_NAME, read_manifest

HUB = "hf:"
CARD = "README.md"


def push(bundle: Bundle, target: str, *, replace: bool = False, private: bool = False) -> str:
    """Put the bundle and its model card at `target`, a folder or hf:owner/name; where it is then."""
    if not target.startswith(HUB):
        _copy(bundle, Path(target), replace=replace)
        return target
    hub, (repository, revision) = _hub(), _address(target)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        folder = Path(place, "bundle")
        _copy(bundle, folder)
        what = f"{bundle.manifest.name} {bundle.manifest.version}, {bundle.manifest.fingerprint}"
        with _Reached(target):
            api = hub.HfApi(library_name="nonneg")
            api.create_repo(repository, repo_type="model", private=private or None, exist_ok=True)
            done = api.upload_folder(
                repo_id=repository, folder_path=folder, revision=revision, commit_message=f"Push {what}"
            )
    return str(getattr(done, "commit_url", target))


def pull(source: str, out: Path, *, replace: bool = False) -> Bundle:
    """Get a bundle from a folder or from hf:owner/name[@revision]; nothing is written unless all of it is right."""
    check_free(out, replace=replace)
    if not source.startswith(HUB):
        _copy(open_bundle(source), out, replace=replace)
        return open_bundle(out)
    hub, (repository, revision) = _hub(), _address(source)
    with _Reached(source):
        hub.HfApi(library_name="nonneg").model_info(
            repository, revision=revision, timeout=20
        )  # fails at once, not later
        # The manifest first: it says which files there are, so that nothing else is fetched.
        manifest = Path(hub.hf_hub_download(repository, FILE_NAME, revision=revision, library_name="nonneg"))
        wanted = [FILE_NAME, *read_manifest(manifest.parent).files]
        folder = hub.snapshot_download(repository, revision=revision, allow_patterns=wanted, library_name="nonneg")
    _copy(open_bundle(folder), out, replace=replace)
    return open_bundle(out)


def _copy(bundle: Bundle, out: Path, *, replace: bool = False) -> None:
    """The bundle's own files and a fresh card, nothing else that may lie in its folder."""
    with staged(out, replace=replace) as folder:
        for name in (FILE_NAME, *bundle.manifest.files):
            shutil.copyfile(bundle.path / name, folder / name)
        (folder / CARD).write_text(card(bundle.manifest), encoding="utf-8")
        open_bundle(folder)


def _address(target: str) -> tuple[str, str | None]:
    repository, _, revision = target.removeprefix(HUB).partition("@")
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise ConfigInvalid(f"{target} names no repository", fix="write hf:owner/name or hf:owner/name@revision")
    return repository, revision or None


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError:
        raise MissingExtra("hf: needs huggingface_hub", fix=extra_hint("hub")) from None
    return huggingface_hub


class _Reached:
    """Says in our words what the hub's library says in many classes."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

        if error is None or isinstance(error, NonnegError):
            return
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        # The library's HTTP client has changed between versions; its errors are known by their home.
        transport = type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "requests")
        if isinstance(error, LocalEntryNotFoundError) or (transport and not isinstance(error, HfHubHTTPError)):
            raise ConnectionFailed(f"{self._target} cannot be reached ({first})", fix="check the network") from error
        if isinstance(error, EntryNotFoundError):
            raise NotFound(f"{self._target} holds no bundle ({first})", fix="check the name") from error
        if isinstance(error, HfHubHTTPError):
            raise NotFound(f"{self._target}: {first}", fix="check the name, and log in with `hf auth login`") from error
