"""Going on with a run by a key: its checkpoints are checked, the person is asked, the next attempt starts."""

from __future__ import annotations

import json
from pathlib import Path

from textual.pilot import Pilot

from kerneltui.runs.directory import ACTIVE, RunDirectory
from tests.runs.checkpoints import make_checkpoint
from tests.runs.fakes import make_record, make_run
from tests.tui.watching import until, until_shown, watch
from tests.waiting import until as until_true


def _stopped(folder: Path) -> RunDirectory:
    run = make_run(folder / "run", "end('finished')", phase="stopped", reason="by request, with a checkpoint")
    checkpoint = make_checkpoint(Path(make_record(run).output_dir), 40)
    lines = [{"event": "train_begin", "step": 0}, {"event": "checkpoint", "step": 40, "path": str(checkpoint)}]
    time = "2026-12-01T10:00:00+00:00"
    run.events.write_text("".join(json.dumps({"attempt": 1, "time": time, **line}) + "\n" for line in lines))
    return run


def test_a_stopped_run_goes_on_after_a_question(tmp_path: Path) -> None:
    run = _stopped(tmp_path)
    broken = make_checkpoint(run.path / "output", 60)
    (broken / "optimizer.pt").unlink()

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✔ Stopped", "Resume")
        await pilot.press("r")
        await until_shown(pilot, "Go on with run?", "From the checkpoint of step 40", "checkpoint-60: it has no state")
        await pilot.press("n")
        await pilot.press("r")
        await until_shown(pilot, "It becomes attempt 2")
        await pilot.press("y")
        await until(pilot, lambda: run.read_state().attempt == 2)

    watch(run, play)
    until_true(lambda: run.read_state().phase not in ACTIVE)


def test_a_run_without_a_whole_checkpoint_says_so(tmp_path: Path) -> None:
    run = _stopped(tmp_path)
    (run.path / "output/checkpoint-40/trainer_state.json").unlink()

    async def play(pilot: Pilot[str]) -> None:
        await until_shown(pilot, "✔ Stopped", "Resume")
        await pilot.press("r")
        await until_shown(pilot, "run has no checkpoint to go on from", "trainer_state.json is missing")

    watch(run, play)
    assert run.read_state().attempt == 1
