"""`nonneg shorten`: a file of vectors -> a file of shorter ones, without embedding anything again."""

from pathlib import Path

import click


@click.command()
@click.argument("vectors", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="File to write; any of the forms.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option("--top-k", type=click.IntRange(min=1), help="Of these keep each vector's N largest.")
@click.option("--normalize/--raw", default=True, show_default=True, help="Divide by the length, or not.")
@click.option("--replace", is_flag=True, help="Overwrite the file if it exists.")
def shorten(
    vectors: Path, out: Path, dimensions: int | None, top_k: int | None, normalize: bool, replace: bool
) -> None:
    """Shorten vectors that are already there, as the server would have.

    Without --dimensions and --top-k it changes the form of the file only.

    \b
      nonneg shorten photos.parquet -o small.parquet --dimensions 256
      nonneg shorten photos.parquet -o photos.npz
    """
    from nonneg_core.errors import StorageFailed
    from nonneg_vectors.storage.embeddings import Embeddings
    from nonneg_vectors.storage.vector_files import Summary, check_writable

    check_writable(out)
    if out.exists() and not replace:
        raise StorageFailed(f"{out} exists", fix="choose another name or pass --replace")
    full = Embeddings.load(vectors)
    if dimensions is None and top_k is None and normalize == full.normalized:
        short = full  # bit for bit the same
    else:
        short = full.shorten(dimensions, top_k, normalize=normalize)
    short.save(out)
    click.echo(f"{out}: {Summary.of(short)}")
