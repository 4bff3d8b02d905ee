"""An encoder on a GPU: page-locked buffers, outputs bound once, at batch sizes that are warm before they are needed.

A GPU's libraries choose their kernels for every new batch size they meet, which takes seconds. So a batch is filled up
to the next power of two, and those are run when the server warms up. Copies to and from page-locked memory go at the
bus's full speed; memory that Python allocates is copied twice.

ONNX Runtime copies an input to the device when it is bound, not when it is run: what is written into the buffer
afterwards is never seen. So the input is bound again for every batch; the output is copied into its buffer by each run.
"""

import ctypes
import mmap
import os
import weakref
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.pixels.view import Pixels
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.runner import INPUT, OUTPUT, on_cores

RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so", "cudart64_13.dll", "cudart64_12.dll")
PORTABLE = 1  # cudaHostRegisterPortable: locked for every device's context


class DeviceSession(Session):
    """As `Session`, with buffers for each batch size that are used again."""

    def __init__(self, path: Path, *, threads: int = 1, providers: tuple[str, ...], largest: int = 1) -> None:
        super().__init__(path, threads=threads, providers=providers)
        self._sizes = warm_sizes(largest)
        self._shape = tuple(self._session.get_inputs()[0].shape[1:])  # (size, size, 3)
        self._columns = self._session.get_outputs()[0].shape[1]
        self._lock = not on_cores(self.providers)
        self.idle: dict[int, list[Bound]] = {size: [] for size in self._sizes}  # what no thread uses at this moment

    def run(self, pixels: Pixels) -> Floats:
        """Run at most as many rows as there is room for."""
        most = self._sizes[-1]
        if len(pixels) > most:
            return np.concatenate([self.run(pixels[i : i + most]) for i in range(0, len(pixels), most)])
        size = next(size for size in self._sizes if size >= len(pixels))
        try:
            bound = self.idle[size].pop()
        except IndexError:
            bound = Bound(self._session, size, self._shape, self._columns, lock=self._lock)
        rows = bound.run(pixels)
        self.idle[size].append(bound)  # not after an error: what a device does to its buffers then is unknown
        return rows


class Bound:
    """Buffers for one batch size, and the binding between them and the session."""

    def __init__(self, session: Any, size: int, shape: tuple[int, ...], columns: int, *, lock: bool) -> None:
        self.input = pages((size, *shape), np.uint8)
        self.output = pages((size, columns), np.float32)
        self.locked = lock and page_lock(self.input) and page_lock(self.output)
        self._session = session
        self._binding = session.io_binding()
        self._binding.bind_output(OUTPUT, "cpu", 0, np.float32, self.output.shape, self.output.ctypes.data)

    def run(self, pixels: Pixels) -> Floats:
        """Run at most as many rows as there is room for."""
        self.input[: len(pixels)] = pixels  # what lies behind is an earlier batch's, and its results are not read
        self._binding.bind_cpu_input(INPUT, self.input)  # copies it to the device, now
        self._binding.synchronize_inputs()  # copies from and to page-locked memory go on by themselves
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()
        return self.output[: len(pixels)].copy()


def warm_sizes(largest: int) -> list[int]:
    """Return the batch sizes that are run: powers of two, and the largest."""
    return sorted({min(2**power, largest) for power in range(largest.bit_length() + 1)})


def pages(shape: tuple[int, ...], kind: type[Any]) -> NDArray[Any]:
    """Return an array that has its pages of memory for itself: CUDA locks a page for one array only."""
    count = prod(shape)
    return np.frombuffer(mmap.mmap(-1, max(1, count * np.dtype(kind).itemsize)), kind, count).reshape(shape)


def page_lock(array: NDArray[Any], cuda: Any = None) -> bool:
    """Keep the array's memory where it is until the array is gone, by CUDA's runtime if there is one; else False."""
    cuda = cuda or _cuda_runtime()
    if cuda is None:
        return False
    address = ctypes.c_void_p(array.ctypes.data)
    if cuda.cudaHostRegister(address, ctypes.c_size_t(array.nbytes), ctypes.c_uint(PORTABLE)) != 0:
        cuda.cudaGetLastError()  # forget it: ONNX Runtime would take it for one of its own kernels'
        return False
    weakref.finalize(array, cuda.cudaHostUnregister, address).atexit = False  # then CUDA itself may be gone
    return True


def _cuda_runtime() -> Any:
    """Return CUDA's runtime: the one that the provider has loaded into this process, else the system's."""
    loaded_only = getattr(os, "RTLD_NOLOAD", None)
    for mode in (ctypes.DEFAULT_MODE,) if loaded_only is None else (loaded_only, ctypes.DEFAULT_MODE):
        for name in RUNTIMES:
            try:
                return ctypes.CDLL(name, mode=mode)
            except OSError:
                continue
    return None
