"""An encoder on a GPU: buffers in page-locked memory, bound once, at batch sizes that are warm before they are needed.

A GPU's libraries choose their kernels anew for every batch size they meet, which takes seconds; so a batch is filled up
to the next power of two, and those are run when the server warms up. Copies to and from page-locked memory go at the
bus's full speed; memory that Python allocates is copied twice.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.pixels.graph import INPUT, OUTPUT
from nonneg_client.pixels.view import Pixels
from nonneg_export.runtime import Session

RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so", "cudart64_13.dll", "cudart64_12.dll")


class DeviceSession(Session):
    """As `Session`, with input and output bound to buffers that every thread keeps for each batch size."""

    def __init__(self, path: Path, *, threads: int = 1, providers: tuple[str, ...], largest: int = 1) -> None:
        super().__init__(path, threads=threads, providers=providers)
        self._sizes = warm_sizes(largest)
        self._shape = tuple(self._session.get_inputs()[0].shape[1:])  # (size, size, 3)
        self._columns = self._session.get_outputs()[0].shape[1]
        self._own = threading.local()

    def run(self, pixels: Pixels) -> NDArray[np.float32]:
        """The raw embeddings of a batch: uint8 (batch, size, size, 3) -> float32 (batch, D)."""
        most = self._sizes[-1]
        if len(pixels) > most:
            return np.concatenate([self.run(pixels[i : i + most]) for i in range(0, len(pixels), most)])
        bound = self._bound(next(size for size in self._sizes if size >= len(pixels)))
        bound.input[: len(pixels)] = pixels  # what lies behind is an earlier batch's, and nobody reads what comes of it
        self._session.run_with_iobinding(bound.binding)
        return bound.output[: len(pixels)].copy()

    def _bound(self, size: int) -> Bound:
        kept: dict[int, Bound] = self._own.__dict__.setdefault("bound", {})
        if size not in kept:
            kept[size] = Bound(self._session, size, self._shape, self._columns)
        return kept[size]


class Bound:
    """Buffers for one batch size, and the binding that holds them."""

    def __init__(self, session: Any, size: int, shape: tuple[int, ...], columns: int) -> None:
        self.input = np.zeros((size, *shape), np.uint8)
        self.output = np.zeros((size, columns), np.float32)
        self.locked = page_lock(self.input) and page_lock(self.output)
        self.binding = session.io_binding()
        self.binding.bind_input(INPUT, "cpu", 0, np.uint8, self.input.shape, self.input.ctypes.data)
        self.binding.bind_output(OUTPUT, "cpu", 0, np.float32, self.output.shape, self.output.ctypes.data)


def warm_sizes(largest: int) -> list[int]:
    """The batch sizes that are run: powers of two, and the largest."""
    return sorted({min(2**power, largest) for power in range(largest.bit_length() + 1)})


def page_lock(array: NDArray[Any]) -> bool:
    """Keep the array's memory where it is until the array is gone; False where there is no CUDA to do it."""
    cuda = _cuda_runtime()
    if cuda is None or cuda.cudaHostRegister(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), 0) != 0:
        return False
    weakref.finalize(array, cuda.cudaHostUnregister, ctypes.c_void_p(array.ctypes.data))
    return True


def _cuda_runtime() -> Any:
    """CUDA's runtime, if the provider has loaded it into this process or the system has it."""
    for name in RUNTIMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None
