"""A Parquet file of images, opened wherever it lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nonneg_client.data_set.addresses import Address, reading
from nonneg_client.storage.parquet import import_pyarrow
from nonneg_core.errors import DataInvalid


@contextmanager
def opened_parquet(address: Address) -> Iterator[Any]:
    """Open a Parquet file to read row groups from."""
    pyarrow = import_pyarrow()
    with address.open() as source, reading(address):
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield file
        except pyarrow.ArrowInvalid as error:
            raise DataInvalid(f"{address} is not a Parquet file, or a broken one ({error})", fix="check it") from error
