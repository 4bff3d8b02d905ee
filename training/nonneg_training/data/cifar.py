"""CIFAR-10 and CIFAR-100 as torchvision and their authors lay them out, read without trusting a pickle."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.errors import DataInvalid
from nonneg_training.data.images import Arrays

_SAFE = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
_LAYOUT = {
    "cifar10": ("cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"], "batches.meta"),
    "cifar100": ("cifar-100-python", ["train"], ["test"], "meta"),
}


def cifar(name: str, root: Path, split: str = "train") -> Arrays:
    """Read cifar10 or cifar100 below `root` (or `root` itself being the folder of batches)."""
    folder_name, train, test, meta = _LAYOUT[name]
    folder = root / folder_name if (root / folder_name).is_dir() else root
    batches = [_read(folder / file, name) for file in (train if split == "train" else test)]
    label, label_names = (b"labels", b"label_names") if name == "cifar10" else (b"fine_labels", b"fine_label_names")
    try:
        rows = np.concatenate([np.asarray(batch[b"data"], dtype=np.uint8) for batch in batches])  # (n, 3072)
        labels = np.concatenate([np.asarray(batch[label]) for batch in batches])
        pixels = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        classes = tuple(_text(c) for c in _read(folder / meta, name)[label_names])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DataInvalid(f"{folder} is not {name} ({what})", fix="download it again", value=str(folder)) from error
    return Arrays(f"{name} ({split})", pixels, labels, classes)


class _Arrays(pickle.Unpickler):
    """Builds numpy arrays, lists, strings and dictionaries, and refuses everything else."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _SAFE:
            raise pickle.UnpicklingError(f"it wants to call {module_name}.{global_name}")
        return super().find_class(module_name, global_name)


def _read(path: Path, name: str) -> dict[bytes, Any]:
    try:
        record = _Arrays(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        if not isinstance(record, dict):
            raise TypeError(f"it holds a {type(record).__name__}, not a dictionary")
    except OSError as error:
        raise DataInvalid(
            f"{path} cannot be read ({error.strerror})",
            fix=f"give the folder that holds {_LAYOUT[name][0]} (data.root); torchvision.datasets downloads it",
            value=str(path),
        ) from error
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, TypeError, AttributeError, KeyError) as error:
        raise DataInvalid(
            f"{path} is not a batch of {name} ({error})", fix="download it again", value=str(path)
        ) from error
    # the layout's own keys are bytes, a rewritten copy's are text
    return {key.encode() if isinstance(key, str) else key: value for key, value in record.items()}


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
