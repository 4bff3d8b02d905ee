"""What a worker must have in common with the driver, or it would make other bytes, or put them elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from nonneg_client.data_set.addresses import Address
from nonneg_client.data_set.layout import JOB, read_job
from nonneg_client.embedder import Model
from nonneg_core.errors import ConfigInvalid

DECIDE = ("nonneg", "numpy", "onnxruntime", "pillow", "cykooz-resizer", "pyarrow")  # what bytes depend on


def versions() -> dict[str, str | None]:
    """Return the versions of what the bytes of a shard depend on; None for what is not installed."""
    return {name: _version(name) for name in DECIDE}


def check_versions(expected: Mapping[str, str | None]) -> None:
    """Refuse a machine whose packages would give other bytes."""
    here = versions()
    differing = [f"{name} {here[name]}, not {wanted}" for name, wanted in expected.items() if here[name] != wanted]
    if differing:
        raise ConfigInvalid(
            f"a worker on {platform.node()} has {', '.join(differing)}",
            fix="install the same versions on every machine, with the same constraints.txt",
        )


def check_model(found: Model, expected: Model) -> None:
    """Refuse a bundle that is not the driver's."""
    if found.fingerprint != expected.fingerprint:
        raise ConfigInvalid(
            f"a worker's model has the fingerprint {found.fingerprint}, not {expected.fingerprint}",
            fix="remove the folder nonneg/bundles in that machine's cache",
        )


def check_target(target: Address, begun: Mapping[str, Any] | None) -> None:
    """Refuse a folder that is not the driver's, but one of the same name on this machine's own disk."""
    if target.here and read_job(target) != begun:
        raise not_shared(target, f"on {platform.node()} it does not hold the {JOB} of this run")


def not_shared(target: Address, found: str) -> ConfigInvalid:
    """Make the error of a target that is not the same folder on every machine."""
    return ConfigInvalid(
        f"{target} is not one folder for all machines of the cluster: {found}",
        fix="write to a disk that all of them share, or to a store such as s3://bucket/folder",
        field="out",
        value=str(target),
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
