"""A container's CPU limit is heeded: a real cgroup of half a core, where this user may make one."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from nonneg_runtime.bundle.bundle_folder import Bundle

GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # v1, v2


@pytest.fixture
def half_a_core() -> Iterator[Path]:
    for base in GROUPS:
        group = base / f"nonneg-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / "cpu.cfs_quota_us").exists():
                (group / "cpu.cfs_quota_us").write_text("50000")
                yield group
                return
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text("50000 100000")
                yield group
                return
        except OSError:
            continue
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
    pytest.skip("no cgroup can be made here")


def test_half_a_core_gets_one_thread_and_answers(
    start: Callable, bundle: Bundle, png: Callable[[int], bytes], half_a_core: Path, tmp_path: Path
) -> None:
    script = tmp_path / "inside.py"
    script.write_text(
        f"import os, sys\nopen({str(half_a_core / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'nonneg_cli', *sys.argv[1:]])\n"
    )
    with start("--model", str(bundle.path), "--drain", "0", command=(str(script),)) as (address, _):
        info = httpx.get(f"{address}/info").json()
        assert info["tokenization_workers"] == 1
        assert httpx.post(f"{address}/embed", content=png(0)).status_code == 200
