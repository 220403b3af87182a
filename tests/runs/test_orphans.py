from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kerneltui.runs.control import ask_run
from kerneltui.runs.orphans import find_orphans
from kerneltui.runs.processes import MARK, processes_of
from kerneltui.show_runs import orphan_lines
from tests.runs.fakes import make_run, set_state
from tests.waiting import until


def test_what_an_ended_run_has_left_is_listed_with_a_way_to_end_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "my run", "", phase="running")
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARK: str(run.path)}
    )
    until(lambda: processes_of(run.path))
    paths = {str(run.path)}
    assert [found for found in find_orphans() if found.path in paths] == []
    set_state(run, phase="finished")
    (found,) = [found for found in find_orphans() if found.path in paths]
    assert found.pids == (left.pid,)
    (line,) = orphan_lines([found])
    assert line == f"✖ my run has ended, but 1 process still lives ({left.pid}): kerneltui stop '{run.path}' --now"
    ask_run(run, "kill")
    left.wait()
    assert [found for found in find_orphans() if found.path in paths] == []


def test_processes_of_a_run_that_was_removed_are_orphans_too(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "")
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARK: str(run.path)}
    )
    until(lambda: processes_of(run.path))
    shutil.rmtree(run.path)
    (found,) = [found for found in find_orphans() if found.path == str(run.path)]
    assert orphan_lines([found])[0].endswith(f": kill {left.pid}")
    left.kill()
    left.wait()
