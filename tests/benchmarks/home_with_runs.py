"""How long home takes with hundreds of runs: `python -m tests.benchmarks.home_with_runs [RUNS] [PAIRS]`.

Starts kerneltui in turn in a directory without runs and in one with many, on a pty of 120×40, and prints as a ratio
the seconds until the screen stands (its footer), and until runs are in it, against three runs. The first look at the
many reads all their records; the pairs after it are as every later start.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.first_frame import seconds_to
from tests.runs.fakes import ago, make_record, make_run


def make_history(folder: Path, count: int) -> None:
    """Make runs that have finished, with a few hundred log lines each."""
    for number in range(count):
        run = make_run(folder / f"run-{number:04}", "", phase="finished", started=ago(9000 + number), ended=ago(8000))
        make_record(run)
        log = {"attempt": 1, "kind": "log", "epoch": 0.1, "values": {"loss": 1.5, "grad_norm": 0.3, "num_tokens": 9}}
        run.metrics.write_text("".join(json.dumps({**log, "step": step}) + "\n" for step in range(300)))
        run.events.write_text(json.dumps({"attempt": 1, "event": "train_begin", "step": 0}) + "\n")


def main() -> None:
    """Print each pair and the ratios of the medians."""
    given = [int(word) for word in sys.argv[1:]]
    count, pairs = (*given, 500, 5)[:2] if not given else (*given, 5)[:2]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(XDG_CACHE_HOME=f"{folder}/cache", XDG_STATE_HOME=f"{folder}/state")
        none, few, many = (Path(folder, name) for name in ("none", "few", "many"))
        none.mkdir()
        make_history(few, 3)
        make_history(many, count)
        start = [sys.executable, "-P", "-m", "kerneltui", "--runs-dir"]
        print(f"first look at {count} runs: {seconds_to([*start, str(many)], b'run-'):.3f} s until they are shown")
        arms = {
            "none": (none, b"New run"),
            "many": (many, b"New run"),
            "few shown": (few, b"run-0"),
            "many shown": (many, b"run-0"),
        }
        times: dict[str, list[float]] = {name: [] for name in arms}
        for pair in range(pairs):
            for name, (place, text) in arms.items():
                times[name].append(seconds_to([*start, str(place)], text))
            print(f"pair {pair + 1}: " + "  ".join(f"{name} {found[-1]:.3f} s" for name, found in times.items()))
        medians = {name: statistics.median(found) for name, found in times.items()}
        print(f"many / none: {medians['many'] / medians['none']:.2f}")
        print(f"many shown / few shown: {medians['many shown'] / medians['few shown']:.2f}")


if __name__ == "__main__":
    main()
