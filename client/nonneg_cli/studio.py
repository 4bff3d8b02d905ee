"""`nonneg studio`: a folder of photos -> an index in the cache -> a server whose page shows it."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nonneg_server.startup.server_settings import Settings


@click.command()
@click.argument("images", nargs=-1, required=True)
@click.option("--model", metavar="DIR", help="Bundle to look through, or the name of one that comes along: photo-fast.")
@click.option(
    "--index",
    "place",
    type=click.Path(path_type=Path),
    help="Folder of the index; without it, one in the user's cache that belongs to these images.",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; without it 8000, or a free one if that is taken.")
@click.option(
    "--without-key",
    is_flag=True,
    help="Show the photos to anyone who reaches --host, where that is not this machine alone and no key is set.",
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def studio(
    images: tuple[str, ...],
    model: str | None,
    place: Path | None,
    host: str | None,
    port: int | None,
    without_key: bool,
    quiet: bool,
) -> None:
    """Look at your photos through their dimensions, in a browser.

    IMAGES is a folder of photos, or several; or one index that `nonneg index` made. What is new is embedded, what is
    gone is forgotten; then the address is printed at which the page is served until Ctrl-C. Photos are only read.
    Every setting of `nonneg serve` is understood as its variable, such as NONNEG_API_KEY_FILE.

    \b
      nonneg studio photos/
      nonneg studio photos/ --model photo-fast --port 9000
      nonneg studio photos.index
    """
    from nonneg_runtime.words.column_facts import shipped_model
    from nonneg_server.startup.serve_command import run
    from nonneg_server.startup.setting_sources import read_settings
    from nonneg_vectors.curation.collection import read_collection

    settings = read_settings(host=host, port=port, model=(model,) if model else None, studio=True)
    if not without_key:
        check_private(settings)
    if port is None and not _free(settings.host, settings.port):
        settings = settings.model_copy(update={"port": 0})
    index = place or index_of(images, model)
    if not _is_index(images):
        update_index(images, index, model, quiet=quiet)
    collection = read_collection(index)
    served = shipped_model(collection.vectors.model, collection.vectors.fingerprint, model)
    run(settings.model_copy(update={"model": (served,), "index": index}), collection)


def check_private(settings: "Settings") -> None:
    """Refuse to show a person's photos to the network where no key is asked."""
    from nonneg_core.errors import ConfigInvalid
    from nonneg_server.http.origin import is_loopback

    if settings.api_key or settings.api_key_file is not None or is_loopback(settings.host):
        return
    raise ConfigInvalid(
        f"--host {settings.host} would show the photos to anyone who reaches this machine: no key is set",
        fix="`nonneg key me > keys.txt` prints a key; set NONNEG_API_KEY_FILE=keys.txt, or say --without-key",
        field="host",
        value=settings.host,
    )


def update_index(images: tuple[str, ...], index: Path, model: str | None, *, quiet: bool) -> None:
    """Embed new photos in this process, and remove deleted ones from the index."""
    from nonneg_client.commands.embedder_options import DEFAULT_BUNDLE, EmbedderOptions
    from nonneg_client.commands.index_update import begin
    from nonneg_core.errors import DataInvalid

    with begin(index, list(images), []) as update:
        update.add_images(list(images), None, None, None, quiet, EmbedderOptions("", bundle=model or DEFAULT_BUNDLE))
        if not (index / "index.json").exists():
            raise DataInvalid("no photo could be read, so there is nothing to look at", fix="name a folder of photos")
        update.tell(prune=True)
        update.remember_broken()


def _is_index(images: tuple[str, ...]) -> bool:
    return len(images) == 1 and (Path(images[0]) / "index.json").exists()


def index_of(images: tuple[str, ...], model: str | None) -> Path:
    """Find the index itself if that was named, else the one in the cache for these images and this model."""
    from nonneg_client.sources.rooted_images import root_of
    from nonneg_core.files.user_cache import cache_folder
    from nonneg_runtime.bundle.bundle_folder import located
    from nonneg_runtime.bundle.manifest import read_manifest

    if _is_index(images):
        return Path(images[0])
    root, fingerprint = root_of(images), read_manifest(located(model)).fingerprint
    named = sorted(str(Path(name).resolve()) for name in images)
    digest = hashlib.sha256(repr((str(root), named, fingerprint)).encode()).hexdigest()[:16]
    return cache_folder("studio") / f"{root.name or 'root'}-{digest}.index"


def _free(host: str, port: int) -> bool:
    """Return whether a port can be listened on."""
    from nonneg_core.errors import ConfigInvalid
    from nonneg_server.startup.serve_command import bind

    try:
        bind(host, port).close()
    except ConfigInvalid:
        return False
    return True
