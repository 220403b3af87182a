"""How long until all kernels for attention have a verdict, beside `kernels versions` for each in turn.

`python -m tests.benchmarks.kernel_list` serves the loopback Hub with 100 ms before each answer and prints both, as
processes that a person would start and without the imports. `kernels versions` shows variants alone: no trust, no
backward, no reason for a branch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kerneltui.records import to_json
from tests.advice.situations import H200, make_server
from tests.hub import LoopbackHub

DELAY = 0.1

_OURS = """
import json, sys, time
from pathlib import Path
from kerneltui.browse.browser import KernelBrowser
from kerneltui.facts.hub import Hub
from kerneltui.facts.server import Server
from kerneltui.interpreter import Asker
from kerneltui.records import read_record
with Asker(Path(sys.executable)) as asker:
    hub = Hub(folder=Path(sys.argv[2]))
    browser = KernelBrowser(asker, hub, read_record(Path(sys.argv[1]), Server))
    if sys.argv[3] == "warm":
        asker.ask("kernels.variants", names=[], system={"backend": "cpu", "machine": "x86_64", "os": "linux"})
        hub.is_trusted("kernels-community", keep=60)
    start = time.perf_counter()
    first = []
    found = browser.rows(on_row=lambda row: first.append(time.perf_counter() - start) if row.verdict else None)
    judged = [row.repository for row in found.repositories if row.verdict]
    print(json.dumps([time.perf_counter() - start, first[0], judged]))
"""

_THEIRS = """
import contextlib, io, sys, time
from kernels.cli.versions import print_kernel_versions
from kernels.hf_hub import _get_hf_api
from huggingface_hub.errors import HfHubHTTPError
_get_hf_api().get_organization_overview("kernels-community")
start = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    for name in sys.argv[1:]:
        with contextlib.suppress(HfHubHTTPError):
            print_kernel_versions(name)
print(time.perf_counter() - start)
"""


def main() -> None:
    """Measure both ways, and print the ratios and the requests."""
    with tempfile.TemporaryDirectory() as folder, LoopbackHub(Path(folder) / "home") as hub:
        environment = {**os.environ, **hub.environment()}
        report = Path(folder) / "server.json"
        report.write_bytes(to_json(make_server(H200)))
        _run(environment, "-c", "import kernels, huggingface_hub.hf_api, kerneltui.browse.browser")  # from the disk
        hub.fail("/", delay=DELAY)

        cold, _, judged = _ours(environment, report, f"{folder}/1", "cold")
        start = time.perf_counter()
        for name in judged:
            _run(environment, "-c", "from kernels.cli import main; main()", "versions", name)
        print(f"{len(judged)} repositories for attention, {DELAY:g} s a request")
        _print("as processes", time.perf_counter() - start, cold)

        hub.requests.clear()
        warm, _, _ = _ours(environment, report, f"{folder}/2", "warm")
        requests = len(hub.requests)
        hub.requests.clear()
        theirs = float(_run(environment, "-c", _THEIRS, *judged))
        _print("without imports", theirs, warm)
        print(
            f"requests: kernels versions {len(hub.requests)}, kerneltui {requests}, at most {hub.most_at_once} at once"
        )
        hub.requests.clear()
        _, first, _ = _ours(environment, report, f"{folder}/2", "cold")
        print(f"second start: first verdict after {first:.2f} s, {len(hub.requests)} requests in all")


def _print(what: str, theirs: float, ours: float) -> None:
    print(f"{what:16} kernels versions {theirs:6.2f} s   kerneltui {ours:5.2f} s   {theirs / ours:5.1f} times sooner")


def _ours(environment: dict[str, str], *arguments: object) -> tuple[float, float, list[str]]:
    start = time.perf_counter()
    said = json.loads(_run(environment, "-c", _OURS, *map(str, arguments)))
    whole = time.perf_counter() - start
    seconds, first, judged = said
    return (whole if arguments[-1] == "cold" else seconds), first, judged


def _run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    return done.stdout


if __name__ == "__main__":
    main()
