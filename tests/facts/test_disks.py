"""The space on disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerneltui.facts.disks import places, read_disk, read_quota

# As quota-tools 4.06 prints them.
HEAD = """Disk quotas for user anna (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
"""
NO_QUOTA = "Disk quotas for user anna (uid 1000): none\n"


def test_a_directory_that_is_not_there_yet_lies_on_its_parent_s_disk(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    disk = read_disk("runs", wanted)
    assert disk.path == str(wanted)
    assert 0 <= disk.free <= disk.total
    assert disk.total == read_disk("runs", tmp_path).total


def test_where_runs_and_the_cache_are(tmp_path: Path) -> None:
    found = places(tmp_path)
    assert found["runs"] == tmp_path
    assert found["cache"].name == "hub"
    assert ("shared memory" in found) == Path("/dev/shm").is_dir()


@pytest.mark.parametrize(
    ("told", "left"),
    [
        (NO_QUOTA, None),
        ("", None),
        (f"{HEAD}          /home 1205633  5000000 6000000       0      12       0       0       0\n", 4794367 * 1024),
        (f"{HEAD}          /home 1205633  5000000       0       0      12       0       0       0\n", 3794367 * 1024),
        (f"{HEAD}          /home 9765625*   1000       0       0      12       0       0       0\n", 0),
        (f"{HEAD}          /home 1205633        0       0       0      12    1000    2000       0\n", None),
        (f"{HEAD}         /other 1205633  5000000 6000000       0      12       0       0       0\n", None),
    ],
)
def test_what_a_quota_leaves(told: str, left: int | None) -> None:
    assert read_quota(told, "/home") == left


def test_a_quota_counts_where_it_leaves_less_than_the_disk_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    script = """#!/bin/sh
for word; do case "$word" in --filesystem=*) mount="${word#--filesystem=}" ;; esac; done
echo "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace"
echo "     $mount 9000* 8000 10000 0 12 0 0 0"
exit 1
"""
    (tmp_path / "quota").write_text(script)
    (tmp_path / "quota").chmod(0o755)
    disk = read_disk("runs", tmp_path / "runs")
    assert (disk.free, disk.quota) == (1000 * 1024, True)
    (tmp_path / "quota").write_text("#!/bin/sh\necho 'no such filesystem' >&2\nexit 2\n")
    assert not read_disk("runs", tmp_path / "runs").quota
