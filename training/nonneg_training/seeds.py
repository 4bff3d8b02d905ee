"""Randomness that depends only on (seed, where we are): what makes a resumed run equal to one that never stopped."""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def derive(seed: int, *where: int | str) -> int:
    """Return a 63-bit seed for one place of one run, the same on every machine."""
    text = "/".join(map(str, (seed, *where)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *where: int | str) -> torch.Generator:
    """Return torch's generator for that place."""
    return torch.Generator().manual_seed(derive(seed, *where))


def permutation(n: int, seed: int, *where: int | str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return 0..n-1 in the order of that place."""
    return np.random.default_rng(derive(seed, *where)).permutation(n)
