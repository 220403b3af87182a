"""What control groups allow, from files as the kernel shows them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from kerneltui.facts import limits

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory\n"
    "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
)
GIB = 1 << 30
UNLIMITED_V1 = "9223372036854771712\n"


def machine(root: Path, own: str, mounts: str, **files: str) -> Path:
    """Return a root with these control groups; "__" in a file's name stands for a slash."""
    for name, text in {"proc__self__cgroup": own, "proc__self__mountinfo": mounts, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def read(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int | None, float | None]:
    groups = limits.control_groups(root)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=128 * GIB, available=100 * GIB))
    monkeypatch.setattr(limits, "control_groups", lambda: groups)
    found = limits.read_limits()
    return found["memory_limit"], found["cpu_quota"]


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = "sys__fs__cgroup__system.slice"
    root = machine(
        tmp_path,
        "0::/system.slice/slurmd/job_7\n",
        V2_MOUNT,
        **{
            f"{top}__slurmd__job_7__memory.max": "max\n",
            f"{top}__slurmd__job_7__cpu.max": "400000 100000\n",
            f"{top}__slurmd__memory.max": "68719476736\n",
            f"{top}__memory.max": "103079215104\n",
            f"{top}__cpu.max": "max 100000\n",
        },
    )
    assert read(root, monkeypatch) == (68719476736, 4.0)


def test_version_1_in_a_container_that_does_not_see_its_own_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine(
        tmp_path,
        "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        V1_MOUNTS,
        **{
            "sys__fs__cgroup__memory__memory.limit_in_bytes": "8589934592\n",
            "sys__fs__cgroup__cpu,cpuacct__docker__abc__cpu.cfs_quota_us": "150000\n",
            "sys__fs__cgroup__cpu,cpuacct__docker__abc__cpu.cfs_period_us": "100000\n",
            "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_quota_us": "-1\n",
            "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_period_us": "100000\n",
        },
    )
    assert read(root, monkeypatch) == (8589934592, 1.5)


def test_a_limit_that_the_machine_does_not_reach_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path, "0::/\n", V2_MOUNT, **{"sys__fs__cgroup__memory.max": f"{128 * GIB}\n"})
    assert read(root, monkeypatch) == (None, None)


def test_no_limit_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"sys__fs__cgroup__memory__memory.limit_in_bytes": UNLIMITED_V1}
    assert read(machine(tmp_path, "4:memory:/\n0::/\n", V1_MOUNTS, **files), monkeypatch) == (None, None)


def test_a_system_without_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(tmp_path, monkeypatch) == (None, None)


def test_this_machine() -> None:
    found = limits.read_limits()
    assert found["cores"] >= 1
    assert 0 < found["memory_available"] <= found["memory_total"]
