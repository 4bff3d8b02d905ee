"""A server with the settings of the Deployment in deploy, in a memory cgroup of its size, and the worst it accepts."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.waits]
ROOT = Path(__file__).parents[2]
GROUPS = Path("/sys/fs/cgroup")
PAIRS = (  # kinds, and about as many pixels as the memory for images has a place for
    {"png, flat, see-through, turned": 55_000_000, "webp, flat": 37_000_000},
    {"jpeg, flat, progressive": 70_000_000, "avif, flat": 55_000_000},
    {"tiff, 16 bits, inks, one strip": 36_000_000, "gif, noise": 25_000_000},
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A memory cgroup with the limit of the deployment, where this user may make one."""
    version_1 = (GROUPS / "memory").is_dir()
    found = (GROUPS / "memory" if version_1 else GROUPS) / f"nonneg-test-{os.getpid()}"
    limit = re.search(r"limits: \{.*memory: (\d+)Gi\}", (ROOT / "deploy/kubernetes/base/server.yaml").read_text())
    assert limit is not None
    try:
        found.mkdir()
        (found / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(str(int(limit[1]) * 2**30))
    except OSError:
        with contextlib.suppress(OSError):
            found.rmdir()
        pytest.skip("this user may make no memory cgroup")
    yield found
    found.rmdir()


def environment() -> dict[str, str]:
    """The settings of the deployment that are written there."""
    pairs = re.findall(
        r'\{name: (NONNEG_\w+), value: "?(\w+)"?\}', (ROOT / "deploy/kubernetes/base/server.yaml").read_text()
    )
    assert "NONNEG_IMAGE_MEMORY" in dict(pairs)
    return {**os.environ, **dict(pairs)}


@pytest.mark.nightly
def test_two_requests_of_the_worst_at_once_stay_within_the_limit_of_the_deployment(group: Path) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from hard_images import HARD, largest
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    nonneg = Path(sys.executable).with_name("nonneg")
    command = f"echo $$ > {group}/cgroup.procs; exec {nonneg} serve --port 0 --threads 2"
    with subprocess.Popen(["bash", "-c", command], env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://[\w.]+:\d+", server.stdout.readline())
            assert found is not None
            for pair in PAIRS:
                made = (largest(HARD[name], pixels, 2**25) for name, pixels in pair.items())
                bodies = [body for body in made if body is not None]
                assert len(bodies) == 2
                statuses: list[int] = []

                def ask(body: bytes, answers: list[int] = statuses, address: str = found[0]) -> None:
                    answers.append(httpx.post(f"{address}/embed", content=body, timeout=120).status_code)

                threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert statuses == [200, 200], pair
            assert server.poll() is None
        finally:
            server.terminate()
            server.wait(60)
    killed = group / "memory.oom_control" if (group / "memory.oom_control").exists() else group / "memory.events"
    assert not re.search(r"^oom_kill [1-9]", killed.read_text(), re.MULTILINE)
