from pathlib import Path

import pytest

from nonneg_core.process import cores_and_allocator as cores


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def eight_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("limit", "expected"), [("50000 100000", 1), ("150000 100000", 2), ("400000 100000", 4), ("max 100000", 8)]
)
def test_a_v2_quota_caps_the_cores(tmp_path: Path, eight_cpus: None, limit: str, expected: int) -> None:
    root = lay(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": limit})
    assert cores.available_cores(root) == expected


def test_a_v1_quota_caps_the_cores(tmp_path: Path, eight_cpus: None) -> None:
    group = "sys/fs/cgroup/cpu,cpuacct/docker/abc"
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n0::/\n",
        f"{group}/cpu.cfs_quota_us": "200000",
        f"{group}/cpu.cfs_period_us": "100000",
    }
    assert cores.available_cores(lay(tmp_path, files)) == 2


def test_the_tightest_enclosing_group_counts(tmp_path: Path, eight_cpus: None) -> None:
    base = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/pod/box\n",
        f"{base}/pod/cpu.max": "300000 100000",
        f"{base}/pod/box/cpu.max": "max 100000",
    }
    assert cores.available_cores(lay(tmp_path, files)) == 3
    assert cores.cgroup_quota(tmp_path) == 3.0


def test_a_cpuset_caps_what_the_quota_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {0}, raising=False)
    root = lay(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000"})
    assert cores.available_cores(root) == 1


@pytest.mark.parametrize("text", ["", "garbage", "-1", "0 0", "5 0"])
def test_unreadable_or_unlimited_groups_limit_nothing(tmp_path: Path, eight_cpus: None, text: str) -> None:
    root = lay(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": text})
    assert cores.available_cores(root) == 8
