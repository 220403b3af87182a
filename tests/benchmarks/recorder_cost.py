"""What the recorder costs training: `python -m tests.benchmarks.recorder_cost [PAIRS [STEPS]]`.

Trains the demo's model with plain `trl sft` and with kerneltui's training program in turn, in fresh processes, and
prints the ratio of the seconds a step that the trainer itself reports.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from kerneltui import demo
from kerneltui.interpreter import worker_command


def seconds_a_step(command: list[str], folder: Path, steps: int) -> float:
    """Return the trainer's own mean seconds a step of one run of `command`."""
    environment = {
        **os.environ,
        "LOCAL_KERNELS": demo.local_kernels(None),
        "HF_HUB_OFFLINE": "1",
        "KERNELTUI_RUN": str(folder),
        "KERNELTUI_ATTEMPT": "1",
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    summary = ast.literal_eval(re.findall(r"\{'train_runtime'.*\}", done.stdout)[-1])
    return float(summary["train_runtime"]) / steps


def main() -> None:
    """Print each pair and the ratio of the medians."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    python = Path(sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.yaml"
        config.write_text(demo.config_text(output_dir=folder / "output", gpu=False, steps=steps))
        plain = [str(python.parent / "trl"), "sft", "--config", str(config)]
        ours = [
            *worker_command(python, "launch"),
            *worker_command(python, "train", "sft", "--config", str(config))[1:],
        ]
        times: dict[str, list[float]] = {"plain": [], "recorded": []}
        for pair in range(pairs):
            order = [("plain", plain), ("recorded", ours)]
            for arm, command in order if pair % 2 else order[::-1]:
                times[arm].append(seconds_a_step(command, folder, steps))
            print(
                f"pair {pair + 1}: plain {times['plain'][-1]:.4f} s/step  recorded {times['recorded'][-1]:.4f} s/step",
                flush=True,
            )
    ratio = statistics.median(times["recorded"]) / statistics.median(times["plain"])
    spread = max(times["plain"]) / min(times["plain"])
    print(
        f"recorded / plain = {ratio:.3f} (median of {pairs}); plain runs among themselves differ by up to {spread:.3f}"
    )


if __name__ == "__main__":
    main()
