"""Mutated images, each seen as a server sees it: bounds on processor time, memory and what is said."""

from __future__ import annotations

import logging
import random
import time
import warnings
from pathlib import Path

from bounds import LEAKS, SLACK, TYPES, Broken
from mutations import mutated
from profiles import KINDS, profiled
from seeds import seeds

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.identify import identify
from nonneg_core.pixels.pricing.price import MAX_SECONDS, Price
from nonneg_core.pixels.view import View
from nonneg_runtime.seeing.preprocess import Preprocessor

MAX_PIXELS = 4_000_000


class Images:
    """Makes the numbered input of a seed, and tries it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._seeds = seeds()
        self._preprocessor = Preprocessor(View(size=64), max_pixels=MAX_PIXELS)
        warnings.simplefilter("ignore")
        logging.disable()
        for files in self._seeds.values():  # what is imported and started at the first image is not an image's
            self._preprocessor.pixels(files[0])

    def close(self) -> None:
        """Nothing is held."""

    def make(self, number: int) -> bytes:
        chance = random.Random(f"{self._seed} {number}")
        kind = sorted(self._seeds)[number % len(self._seeds)]
        if kind in KINDS and chance.random() < 0.1:
            return profiled(kind, chance)
        return mutated(kind, self._seeds[kind], chance)

    def attempt(self, data: bytes) -> str:
        """What became of it; Broken where a bound does not hold."""
        price = 0
        began, before = time.process_time(), _memory(reset=True)
        try:
            known = identify(data, max_pixels=MAX_PIXELS, at_least=128)
            price = known.bytes
            _check_pixels(known)
            self._preprocessor.pixels(data)
            outcome = "seen"
        except NonnegError as error:
            outcome = _checked(error)
        used, peak = time.process_time() - began, _memory() - before
        if used > MAX_SECONDS:
            raise Broken(f"{used:.1f} s of a core")
        if peak > price + len(data) + SLACK:
            raise Broken(f"{peak} bytes, at a price of {price}")
        return outcome


def _check_pixels(price: Price) -> None:
    if not (0 <= price.pixels <= MAX_PIXELS and 0 <= price.seconds <= MAX_SECONDS):
        raise Broken(f"accepted at {price}")


def _checked(error: NonnegError) -> str:
    said = f"{error.message} {error.fix} {error.value}"
    if error.type not in TYPES or LEAKS.search(said):
        raise Broken(f"{error.type}: {said}")
    return error.type


def _memory(*, reset: bool = False) -> int:
    """Peak bytes of this process, from now on or since it was last told so."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    field = "VmRSS" if reset else "VmHWM"
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0
