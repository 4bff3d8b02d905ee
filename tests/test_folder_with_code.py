"""Code that lies beside photos does not run: processes of ours do not look for modules in the current folder."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from PIL import Image

from nonneg_core.process.python_child import start_python

ROOT = Path(__file__).parent.parent
NONNEG = str(Path(sys.executable).with_name("nonneg"))
STARTS = re.compile(
    r"\bPopen\(|\bsubprocess\.run\(|\bmultiprocessing\b|ProcessPool|\bos\.(exec|spawn|fork|posix_spawn)"
)
ALLOWED = {"python_child.py", "training_checkpoint.py"}  # the second starts git


@pytest.fixture
def downloads(tmp_path: Path, photos: Path) -> Path:
    """A folder of photos with modules that leave a file behind when they are imported."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for photo in sorted(photos.rglob("*-0.jpg"))[:2]:
        (folder / photo.name).write_bytes(photo.read_bytes())
    (folder / "picture.avif").write_bytes(avif())
    for name in ("json.py", "numpy.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit\n")
    return folder


def avif() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 30, 10)).save(buffer, "AVIF")
    return buffer.getvalue()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["serve --model photo-fast", "studio . --model photo-fast"])
def test_a_server_started_beside_code_decodes_avif_and_runs_none_of_it(downloads: Path, command: str) -> None:
    started = [NONNEG, *command.split(), "--port", "0"]
    with subprocess.Popen(
        started, cwd=downloads, env=environment(downloads), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = next(found[0] for line in process.stdout if (found := re.search(r"http://[\w.]+:\d+", line)))
            answer = httpx.post(f"{address}/embed", content=avif(), timeout=60)
        finally:
            process.terminate()
    assert answer.status_code == 200
    assert not (downloads.parent / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--ray local --workers 1"], ids=["alone", "ray"])
def test_a_command_that_embeds_beside_code_runs_none_of_it(downloads: Path, more: str) -> None:
    target = "../vectors" if more else "../vectors.npz"
    if more:
        pytest.importorskip("ray")
    line = [NONNEG, "embed", ".", "-o", target, "--bundle", "photo-fast", "--quiet", *more.split()]
    done = subprocess.run(line, cwd=downloads, env=environment(downloads), capture_output=True, text=True, timeout=200)
    assert not (downloads.parent / "ran").exists()
    assert done.returncode == 0, done.stderr


def test_a_child_finds_no_module_where_it_was_started(
    downloads: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(downloads)
    monkeypatch.setenv("PYTHONPATH", f":{os.environ.get('PYTHONPATH', '')}:")
    with start_python("json.tool", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.communicate(b"[1]")[0].split() == [b"[", b"1", b"]"]
    assert not (tmp_path / "ran").exists()


def test_no_other_file_of_ours_starts_a_process() -> None:
    found = {
        path.name
        for part in ("client", "export", "server", "training")
        for path in (ROOT / part).rglob("*.py")
        if STARTS.search(path.read_text(encoding="utf-8"))
    }
    assert found <= ALLOWED
