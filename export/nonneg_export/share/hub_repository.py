"""Where a model is published, and one revision of a repository on the hub, fetched and verified."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from nonneg_core.errors import (
    ConfigInvalid,
    ConnectionFailed,
    DataInvalid,
    DigestMismatch,
    NonnegError,
    NotFound,
    Unauthorized,
)
from nonneg_core.terminal.installing import needing

SourceKind = Literal["file", "hf", "timm", "open_clip", "torchvision"]
FORMS = "FILE.onnx, hf:owner/name[@revision], timm:NAME, open_clip:NAME/TAG or torchvision:NAME"


@dataclass(frozen=True)
class ModelAddress:
    """`rest` is a revision of the hub, or a tag of open_clip."""

    kind: SourceKind
    name: str
    rest: str | None = None

    def __str__(self) -> str:
        joint = {"hf": "@", "open_clip": "/"}.get(self.kind, "")
        prefix = "" if self.kind == "file" else f"{self.kind}:"
        return f"{prefix}{self.name}{joint + self.rest if self.rest else ''}"


def address(text: str) -> ModelAddress:
    """Return what a command's MODEL names; a file that is there wins over a name."""
    prefix, colon, name = text.partition(":")
    if not colon or Path(text).exists():
        looks_like_a_name = re.fullmatch(r"[a-z][a-z0-9_]*", text) is not None
        return ModelAddress("torchvision" if looks_like_a_name and not Path(text).exists() else "file", text)
    if prefix == "hf":
        return hub_address(text)
    if prefix == "open_clip" and re.fullmatch(r"[^/]+/[^/]+", name):
        architecture, _, tag = name.partition("/")
        return ModelAddress("open_clip", architecture, tag)
    if prefix in ("timm", "torchvision") and name:
        return ModelAddress("timm" if prefix == "timm" else "torchvision", name)
    raise ConfigInvalid(f"{text!r} names no model", fix=f"write {FORMS}", field="model", value=text)


def hub_address(text: str) -> ModelAddress:
    """Read hf:owner/name, or hf:owner/name@revision."""
    repository, _, revision = text.removeprefix("hf:").partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository) or ".." in repository:
        raise ConfigInvalid(
            f"{text} names no repository", fix="write hf:owner/name or hf:owner/name@revision", value=text
        )
    return ModelAddress("hf", repository, revision or None)


# What huggingface_hub says in many classes, in the errors that all of nonneg raises.

LOG_IN = "check the name, and log in with `hf auth login` or set HF_TOKEN"


def hub() -> Any:
    """Return the library, or the extra that brings it."""
    with needing("hf:", extra="hub"):
        import huggingface_hub
    return huggingface_hub


@contextmanager
def reached(target: str, what: str = "bundle") -> Iterator[None]:
    """Turn the library's errors into ours; `what` is looked for there."""
    try:
        yield
    except NonnegError:
        raise
    except Exception as error:
        failure = _ours(target, what, error)
        if failure is None:
            raise
        raise failure from error


def _ours(target: str, what: str, error: Exception) -> NonnegError | None:
    from huggingface_hub import errors

    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    # The library's HTTP client has changed between versions; its errors are known by their home.
    transport = type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "requests")
    if isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
        return ConnectionFailed(
            f"{target} cannot be reached and is not in the cache ({first})",
            fix="check the network, HF_HUB_OFFLINE and HF_HOME; fetch it once where there is a network",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return NotFound(f"{target} has no such revision ({first})", fix="name a branch, a tag or a commit that it has")
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return NotFound(f"{target} holds no {what} ({first})", fix="check the name")
    missing = isinstance(error, errors.RepositoryNotFoundError)  # to those without a token a private one is missing
    if isinstance(error, errors.GatedRepoError) or (_status(error) in (401, 403) and not missing):
        return Unauthorized(f"{target} is not open to you ({first})", fix="ask for access on its page; " + LOG_IN)
    if isinstance(error, errors.HfHubHTTPError):
        return NotFound(f"{target}: {first}", fix=LOG_IN)
    if transport or isinstance(error, OSError):
        return ConnectionFailed(f"{target} cannot be reached ({first})", fix="check the network and HF_ENDPOINT")
    return None


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


# One revision of a repository on the Hugging Face hub: what it holds, and its files, fetched and verified.
#
# Fetching, resuming, cache, token and offline mode are huggingface_hub's (HF_HOME, HF_TOKEN, HF_HUB_OFFLINE). Only
# files that are asked for by name are fetched; each is compared with the size and digest that the hub states.

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
            document = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DataInvalid(f"{name} of {self} is not JSON ({error})", fix="name another revision") from error
        if not isinstance(document, dict):
            raise DataInvalid(f"{name} of {self} holds no JSON object", fix="name another revision")
        return document


def open_repository(where: ModelAddress, limit: int) -> HubRepository:
    """Return what the repository holds at the revision, pinned to its commit."""
    with reached(str(where)):
        try:
            info = (
                hub()
                .HfApi(library_name="nonneg")
                .model_info(where.name, revision=where.rest, files_metadata=True, timeout=TIMEOUT)
            )
        except Exception as error:
            cached = _cached(where, limit) if _is_offline(error) else None
            if cached is None:
                raise
            return cached
        files = {sibling.rfilename: _remote(sibling) for sibling in info.siblings or []}
        if files:  # by the revision's own name, so that the cache knows its commit without a network
            anchor = CONFIG if CONFIG in files else min(files)
            hub().hf_hub_download(where.name, anchor, revision=where.rest, library_name="nonneg")
    return _with_card(HubRepository(info.id, info.sha, files, limit))


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

    storage = Path(HF_HUB_CACHE, repo_folder_name(repo_id=where.name, repo_type="model"))
    named = storage / "refs" / (where.rest or "main")
    folder = storage / "snapshots" / (named.read_text().strip() if named.is_file() else where.rest or "main")
    if not folder.is_dir():
        return None
    files = {path.relative_to(folder).as_posix(): Remote() for path in folder.rglob("*") if path.is_file()}
    return _with_card(HubRepository(where.name, folder.name, files, limit))


def _with_card(repository: HubRepository) -> HubRepository:
    if CARD not in repository.files:
        return repository
    from huggingface_hub import metadata_load

    try:
        metadata = metadata_load(repository.fetch(CARD, LARGEST_TEXT)) or {}
    except ValueError:  # a card that is not YAML says nothing
        metadata = {}
    return replace(repository, card=dict(metadata))


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
