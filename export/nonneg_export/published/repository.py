"""One revision of a repository on the Hugging Face hub: what it holds, and its files, fetched and verified.

Fetching, resuming, cache, token and offline mode are huggingface_hub's (HF_HOME, HF_TOKEN, HF_HUB_OFFLINE). Only files
that are asked for by name are fetched; each is compared with the size and digest that the hub states.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nonneg_core.errors import DataInvalid, DigestMismatch, NotFound
from nonneg_export.published.address import ModelAddress
from nonneg_export.published.hub_errors import hub, reached

TIMEOUT = 20  # seconds to answer what a repository holds
LARGEST_TEXT = 16 * 2**20  # of a configuration
LARGEST_TOKENIZER = 64 * 2**20  # one of many languages
CARD, CONFIG = "README.md", "config.json"


@dataclass(frozen=True)
class Remote:
    """What the hub states of a file."""

    size: int | None = None
    sha256: str | None = None
    blob: str | None = None  # git's name for its content


@dataclass(frozen=True)
class HubRepository:
    """A repository at a commit; from the cache alone without a network."""

    name: str
    commit: str
    files: dict[str, Remote]
    limit: int  # bytes of one file
    card: dict[str, Any] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # sha256 of what was fetched

    def __str__(self) -> str:
        return f"hf:{self.name}@{self.commit[:12]}"

    def fetch(self, name: str, limit: int | None = None) -> Path:
        """Return the file in the cache, fetched if it is not there, resumed if it is there in part."""
        stated = self.files.get(name)
        if stated is None:
            raise NotFound(f"{self} holds no {name}", fix=f"it has {', '.join(sorted(self.files)[:12])}", value=name)
        most = self.limit if limit is None else limit
        if stated.size is not None and stated.size > most:
            raise DataInvalid(
                f"{name} of {self} has {stated.size / 2**20:,.0f} MB, more than {most / 2**20:,.0f}",
                fix="choose another file with --file, or raise --max-download",
                field="max_download",
                value=stated.size,
                limit=most,
            )
        with reached(str(self), name):
            path = Path(hub().hf_hub_download(self.name, name, revision=self.commit, library_name="nonneg"))
        self.digests[name] = verify(path, stated)
        return path

    def fetched(self) -> dict[str, str]:
        """Return sha256 of each file that was fetched, by repository, commit and name."""
        return {f"hf:{self.name}@{self.commit}/{name}": digest for name, digest in sorted(self.digests.items())}

    def check_together(self, names: list[str]) -> None:
        """Refuse files of one model that are together larger than the limit, before they are fetched."""
        total = sum(self.files[name].size or 0 for name in names if name in self.files)
        if total > self.limit:
            raise DataInvalid(
                f"{len(names)} files of {self} have {total / 2**20:,.0f} MB together, more than "
                f"{self.limit / 2**20:,.0f}",
                fix="choose another file with --file, or raise --max-download",
                field="max_download",
                value=total,
                limit=self.limit,
            )

    def json(self, name: str) -> dict[str, Any]:
        """Return a small file of JSON, or nothing where there is none."""
        if name not in self.files:
            return {}
        path = self.fetch(name, LARGEST_TEXT)
        try:
            found = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DataInvalid(f"{name} of {self} is not JSON ({error})", fix="name another revision") from error
        if not isinstance(found, dict):
            raise DataInvalid(f"{name} of {self} holds no JSON object", fix="name another revision")
        return found


def open_repository(where: ModelAddress, limit: int) -> HubRepository:
    """Return what the repository holds at the revision, pinned to its commit."""
    with reached(str(where)):
        try:
            found = (
                hub()
                .HfApi(library_name="nonneg")
                .model_info(where.name, revision=where.rest, files_metadata=True, timeout=TIMEOUT)
            )
        except Exception as error:
            cached = _cached(where, limit) if _is_offline(error) else None
            if cached is None:
                raise
            return cached
        files = {sibling.rfilename: _remote(sibling) for sibling in found.siblings or []}
        if files:  # by the revision's own name, so that the cache knows its commit without a network
            anchor = CONFIG if CONFIG in files else min(files)
            hub().hf_hub_download(where.name, anchor, revision=where.rest, library_name="nonneg")
    return _with_card(HubRepository(found.id, found.sha, files, limit))


def _remote(sibling: Any) -> Remote:
    lfs = sibling.lfs
    return Remote(sibling.size, lfs.sha256 if lfs else None, None if lfs else sibling.blob_id)


def _is_offline(error: Exception) -> bool:
    from huggingface_hub.errors import HfHubHTTPError

    return not isinstance(error, HfHubHTTPError)


def _cached(where: ModelAddress, limit: int) -> HubRepository | None:
    """Return the repository as far as the cache holds it."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    kept = Path(HF_HUB_CACHE, repo_folder_name(repo_id=where.name, repo_type="model"))
    named = kept / "refs" / (where.rest or "main")
    folder = kept / "snapshots" / (named.read_text().strip() if named.is_file() else where.rest or "main")
    if not folder.is_dir():
        return None
    files = {path.relative_to(folder).as_posix(): Remote() for path in folder.rglob("*") if path.is_file()}
    return _with_card(HubRepository(where.name, folder.name, files, limit))


def _with_card(repository: HubRepository) -> HubRepository:
    if CARD not in repository.files:
        return repository
    from huggingface_hub import metadata_load

    try:
        found = metadata_load(repository.fetch(CARD, LARGEST_TEXT)) or {}
    except ValueError:  # a card that is not YAML says nothing
        found = {}
    return replace(repository, card=dict(found))


def verify(path: Path, stated: Remote) -> str:
    """Return sha256 of the file; raise where it is not the one that the hub states."""
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    wrong = stated.size is not None and size != stated.size
    if not wrong and stated.sha256 is not None:
        wrong = digest != stated.sha256
    elif not wrong and stated.blob is not None:
        with path.open("rb") as file:
            wrong = hashlib.file_digest(file, lambda: hashlib.sha1(b"blob %d\0" % size)).hexdigest() != stated.blob
    if wrong:
        raise DigestMismatch(
            f"{path} is not the file that the hub states (its size or digest differs)",
            fix="delete it and run the command again",
            field=path.name,
        )
    return digest
