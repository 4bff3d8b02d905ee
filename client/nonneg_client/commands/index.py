"""`nonneg index`: images or files of vectors -> an index; what has not changed is not embedded again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.embedder_options import embeds, served_model
from nonneg_client.commands.index_bulk import for_engines

if TYPE_CHECKING:
    from nonneg_client.commands.embedder_options import EmbedderOptions


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the index.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option(
    "--keep",
    "--top-k",
    "keep",
    type=click.IntRange(min=1),
    help="Store each vector's N largest values; images are searched with their whole vectors.",
)
@served_model
@click.option(
    "--attributes",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="CSV",
    help="More to filter by: a column `path` (within the root) or `id`, and others such as price, brand, date.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Name images by their paths within this folder; for an index, where its images are now.",
)
@click.option("--retry-failed", "retry", is_flag=True, help="Try images again that could not be read and are the same.")
@click.option("--prune", is_flag=True, help="Forget what is indexed but no longer among SOURCES.")
@click.option("--quiet", is_flag=True, help="No progress bar, and no lines in its place.")
@for_engines
@embeds
def index(
    sources: tuple[str, ...],
    out: Path,
    dimensions: int | None,
    keep: int | None,
    model: str | None,
    attributes: Path | None,
    root: Path | None,
    retry: bool,
    prune: bool,
    quiet: bool,
    through: EmbedderOptions,
) -> None:
    """Make a folder searchable.

    SOURCES are images, folders, globs, .tar files or URLs, or files that `nonneg embed` wrote. Given again, only new
    and changed images are embedded; an image is known by its path within the folder that was named first, however that
    folder is typed.

    Each image can be filtered by `folder`, the name of the folder it lies in, by `bytes` and `changed`, by what its
    pixels say (width, height, ratio, sharpness, brightness, contrast, and dark, flat, blurred, tiny, odd_ratio: true or
    false), and by the columns of --attributes: numbers, true/false, dates (2024-05-31) and text are told apart.

    \b
      nonneg index photos/ -o photos.index
      nonneg index photos/ -o photos.index --attributes products.csv
      nonneg index photos.parquet -o photos.index
      nonneg search photos.index photo.jpg --where 'price<30'
      nonneg index photos.parquet -o photos --engine pgvector --url postgresql://host/database
    """
    from nonneg_client.commands.index_update import begin
    from nonneg_core.errors import DataInvalid

    vectors = [name for name in sources if _is_vectors(name)]
    images = [name for name in sources if not _is_vectors(name)]
    with begin(out, images, vectors, root, attributes) as update:
        if vectors:
            update.add_files(vectors, dimensions, keep)
        if images:
            update.add_images(images, dimensions, keep, model, quiet, through, retry=retry)
        if not (out / "index.json").exists():
            raise DataInvalid(f"nothing could be indexed, so {out} was not written", fix="see why each image failed")
        update.tell(prune=prune)
        update.remember_broken()
    if update.failed:
        raise SystemExit(1)


def _is_vectors(name: str) -> bool:
    from nonneg_client.storage import FORMATS

    if Path(name).is_dir():
        return (Path(name) / "manifest.json").is_file()  # of a data set; hundreds of photos do not come with one
    return Path(name).suffix.lower() in FORMATS
