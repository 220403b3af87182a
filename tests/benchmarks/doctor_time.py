"""How long the server report takes: `python -m tests.benchmarks.doctor_time [ROUNDS]`.

Two ratios of medians, each arm a new process, the arms in turn, all of them once before for the disk's cache:
the seconds from the command to the part of the report that has GPUs and torch, over those that the same interpreter
takes to import torch and to ask it for CUDA; and the seconds to the whole report, over those to import all packages
that it imports.
"""

from __future__ import annotations

import importlib.metadata
import statistics
import subprocess
import sys
import time

from kerneltui.facts.probe import IMPORTS

REPORT = """
import sys
from pathlib import Path
from kerneltui.facts.read_server import read_server, PENDING
def tell(server):
    if not {"gpus", "torch"} & {name for name, why in server.unavailable.items() if why == PENDING}:
        print("first", flush=True)
read_server(Path(sys.executable), on_part=tell)
print("whole", flush=True)
"""
CUDA = "import torch; torch.cuda.is_available() and torch.cuda.device_count(); print('first', flush=True)"
PACKAGES = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]; print('whole', flush=True)"


def seconds_to(program: str, *arguments: str) -> dict[str, float]:
    """Return the seconds from the command to each line that a program prints for the first time."""
    start = time.perf_counter()
    found: dict[str, float] = {}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            found.setdefault(line.strip(), time.perf_counter() - start)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {program}")
    return found


def installed_modules() -> list[str]:
    """Return torch and the modules that the report imports of the packages that are installed."""
    there = {item.metadata["Name"].lower().replace("_", "-") for item in importlib.metadata.distributions()}
    return ["torch", *(module for name, module in IMPORTS.items() if name.lower().replace("_", "-") in there)]


def main() -> None:
    """Print each round and the two ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    modules = installed_modules()
    arms = {"report": (REPORT,), "cuda": (CUDA,), "packages": (PACKAGES, *modules)}
    times: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name in arms if number % 2 else reversed(arms):
            for line, seconds in seconds_to(*arms[name]).items():
                if number:
                    times.setdefault(f"{name} {line}", []).append(seconds)
        if number:
            told = "  ".join(f"{name} {found[-1]:.2f} s" for name, found in sorted(times.items()))
            print(f"round {number}: {told}", flush=True)
    median = {name: statistics.median(found) for name, found in times.items()}
    print(f"imported: {' '.join(modules)}")
    print(f"GPU and torch facts / import torch, ask for CUDA = {median['report first'] / median['cuda first']:.2f}")
    print(f"whole report / import all of them = {median['report whole'] / median['packages whole']:.2f}")


if __name__ == "__main__":
    main()
