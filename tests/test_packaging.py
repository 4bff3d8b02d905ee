"""The wheel, built from the sdist: everything that belongs in it, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
HOMES = {
    "nonneg_core": "client",
    "nonneg_vectors": "client",
    "nonneg_client": "client",
    "nonneg_cli": "client",
    "nonneg_runtime": "export",
    "nonneg_export": "export",
    "nonneg_training": "training",
    "nonneg_server": "server",
}
MODELS = "nonneg_runtime/models"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("dist")
    # Without isolation: hatchling is among the test dependencies, and nothing has to be fetched.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run([*build, "--sdist", str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(out.glob("*.tar.gz"))) as sdist:
        safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python before 3.11.4 has none
        sdist.extractall(out / "unpacked", **safe)
    source = next((out / "unpacked").iterdir())
    done = subprocess.run([*build, "--wheel", str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def tracked(package: str) -> set[str]:
    """The files of a package that are part of the project, as the wheel names them."""
    folder = ROOT / HOMES[package]
    listed = subprocess.run(
        ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", package],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return {name for name in listed if (folder / name).exists()}


@pytest.mark.parametrize("package", HOMES)
def test_it_holds_exactly_the_files_of_each_package(wheel: zipfile.ZipFile, package: str) -> None:
    found = {name for name in wheel.namelist() if name.startswith(f"{package}/")}
    assert found == tracked(package)
    assert {f"{package}/__init__.py", f"{package}/py.typed"} <= found


def test_it_holds_nothing_but_the_packages_and_their_description(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(HOMES)


def test_it_holds_both_models_with_all_their_forms_within_their_size(wheel: zipfile.ZipFile) -> None:
    sizes = {info.filename: info.file_size for info in wheel.infolist()}
    forms = {"encoder.onnx", "encoder.int8.onnx", "head.safetensors"}
    files = forms | {"spread.safetensors", "names.json", "lexicon.json", "sentences.safetensors", "manifest.json"}
    of_texts = {"text/encoder.onnx", "text/tokenizer.json"}  # once for both
    found = {name.removeprefix(f"{MODELS}/") for name in sizes if name.startswith(MODELS)}
    assert found == {f"{model}/{file}" for model in ("photo", "photo-fast") for file in files} | of_texts
    assert sum(size for name, size in sizes.items() if name.startswith(MODELS)) <= 76 * 10**6
    assert all(size <= 10**6 for name, size in sizes.items() if name.endswith("names.json"))
    assert not [name for name in sizes if name.endswith((".pth", ".pt", ".pkl"))]


def test_it_carries_licence_and_notice(wheel: zipfile.ZipFile) -> None:
    names = {name.split("dist-info/")[-1] for name in wheel.namelist()}
    assert {"licenses/LICENSE", "licenses/NOTICE", "licenses/MATERIALS.md", "entry_points.txt"} <= names


def test_the_bill_of_materials_names_every_file_of_the_models(wheel: zipfile.ZipFile) -> None:
    table = set(re.findall(r"`([\w*-]+/[\w.]+)`", (ROOT / "MATERIALS.md").read_text()))
    for name in wheel.namelist():
        if name.startswith(MODELS):
            folder, file = name.split("/")[-2:]
            assert {f"{folder}/{file}", f"*/{file}"} & table, name


def test_all_that_names_the_release_names_the_same(wheel: zipfile.ZipFile) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"release {project['version']}," in (ROOT / "MATERIALS.md").read_text()
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()
    images = [
        tag
        for file in (ROOT / "deploy").rglob("*.yaml")
        for tag in re.findall(r"image: nonneg:(\S+)", file.read_text())
    ]
    assert set(images) == {project["version"]}


def test_the_light_install_brings_neither_torch_nor_onnx_nor_a_server(wheel: zipfile.ZipFile) -> None:
    metadata = Parser().parsestr(wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))).decode())
    required = metadata.get_all("Requires-Dist") or []
    light = {line.split(">")[0].split("=")[0].split("[")[0].strip() for line in required if "extra ==" not in line}
    assert light == {"click", "httpx", "numpy", "ormsgpack", "pillow", "pydantic", "tqdm"}
    assert {"server", "gpu", "training", "export", "search", "scale", "all"} <= set(metadata.get_all("Provides-Extra"))


def test_server_and_gpu_bring_onnxruntime_one_way_or_the_other() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [e for e in extras["server"] if e.startswith("onnxruntime")] == ["onnxruntime>=1.20"]
    assert [e.split("[")[0] for e in extras["gpu"] if e.startswith("onnxruntime")] == ["onnxruntime-gpu"]
    assert not [e for e in extras["all"] if "gpu" in e]


def test_every_dependency_is_pinned_for_ci() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for requirements in project["project"]["optional-dependencies"].values():
        asked += requirements
    names = {_name(line) for line in asked} - {"nonneg"}
    pinned = {_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert names - pinned == set(), "run scripts/lock"


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-")
