"""The space on disks."""

from __future__ import annotations

from pathlib import Path

from kerneltui.facts.disks import places, read_disk


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
