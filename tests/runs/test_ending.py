from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneltui.interpreter import worker_command
from kerneltui.runs.directory import RunDirectory
from kerneltui.runs.ending import _KILLS, how_it_ended
from kerneltui.runs.last_words import read_last_words
from kerneltui.runs.supervisor import Supervisor
from tests.runs.fakes import RECORD, NoGpus, make_run

# As accelerate 1.15.0 and torch 2.13 print them.
FRAMES = """\
Traceback (most recent call last):
  File "/env/bin/accelerate", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/env/accelerate/commands/launch.py", line 999, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
"""
DIED = FRAMES + "subprocess.CalledProcessError: Command '['python', 'run.py']' died with <Signals.{}: {}>.\n"
EXITED = FRAMES + "subprocess.CalledProcessError: Command '['python', 'run.py']' returned non-zero exit status {}.\n"
ELASTIC = """\
W1201 09:46:08.374000 4533 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 1 closing signal
E1201 09:46:08.376000 4533 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {1}) local_rank: 1
Traceback (most recent call last):
  File "/env/torch/distributed/launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
======================================================
run.py FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-12-01_09:46:08
  host      : localhost
  rank      : {2} (local_rank: {2})
  exitcode  : {3} (pid: 4553)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4553
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_09:46:08
  host      : localhost
  rank      : {0} (local_rank: {0})
  exitcode  : {1} (pid: 4554)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4554
======================================================
"""
RAISED = """\
  0%|          | 0/20 [00:00<?, ?it/s]Traceback (most recent call last):
  File "/work/run.py", line 3, in <module>
    raise ValueError("no such column")
ValueError: no such column: 'text'
the columns are a, b
"""
MEMORY = "SIGKILL; the system may have run out of memory"
CRASH = "SIGSEGV; native code crashed, a kernel for example"
LOST_PEER = {"type": "RuntimeError", "message": "Connection closed by peer"}


def _start(rank: int = 0) -> dict[str, Any]:
    return {"attempt": 1, "event": "process_start", "rank": rank, "pid": 100 + rank}


def _end(outcome: str, rank: int = 0, error: Any = None) -> dict[str, Any]:
    return {"attempt": 1, "event": "process_end", "rank": rank, "outcome": outcome, "error": error}


def _run(folder: Path, events: list[dict[str, Any]], log: str) -> RunDirectory:
    run = RunDirectory(folder)
    run.attempt(1).mkdir(parents=True)
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    run.output(1).write_text(log)
    return run


@pytest.mark.parametrize(
    ("events", "log", "code", "ending"),
    [
        ([_start()], DIED.format("SIGKILL", 9), 1, ("killed", f"rank 0 ended without a word ({MEMORY})")),
        ([_start()], DIED.format("SIGSEGV", 11), 1, ("killed", f"rank 0 ended without a word ({CRASH})")),
        ([_start()], EXITED.format(137), 1, ("killed", f"rank 0 ended without a word ({MEMORY})")),
        ([_start()], EXITED.format(3), 1, ("failed", "rank 0 ended without a word (exit code 3)")),
        ([_start()], "", None, ("killed", f"rank 0 ended without a word (probably {MEMORY})")),
        (
            [_start(0), _start(1)], ELASTIC.format(1, -9, 0, -15), 1,
            ("killed", f"rank 1 ended without a word ({MEMORY})"),
        ),
        # The other rank fails of the lost connection before it is told to end.
        (
            [_start(0), _start(1), _end("failed", 0, LOST_PEER)], ELASTIC.format(0, 1, 1, -9), 1,
            ("killed", f"rank 1 ended without a word ({MEMORY})"),
        ),
        # The launcher ends the other rank: by TERM, and by KILL where it is deaf.
        (
            [_start(0), _start(1), _end("failed", 1, {"type": "ValueError", "message": "bad row"})],
            ELASTIC.format(1, 1, 0, -15), 1, ("failed", "ValueError: bad row"),
        ),
        (
            [_start(0), _start(1), _end("failed", 1, {"type": "ValueError", "message": "bad row"})],
            "Unable to shutdown process 1 via 15, forcefully exiting via 9\n" + ELASTIC.format(1, 1, 0, -9), 1,
            ("failed", "ValueError: bad row"),
        ),
        (
            [_start(), _end("failed", 0, {"type": "SystemExit", "message": "2"})],
            "usage: sft.py [-h]\nsft.py: error: argument --max_steps: invalid int value\n" + EXITED.format(2), 1,
            ("failed", "sft.py: error: argument --max_steps: invalid int value"),
        ),
        ([_start(), _end("failed", 0, {"type": "SystemExit", "message": "no GPU"})], "", 1,
         ("failed", "SystemExit: no GPU")),
        ([_start(), _end("interrupted", 0, "?")], "", 1, ("failed", "interrupted")),
        # The first to fail is the cause, whichever rank it is.
        (
            [_start(0), _start(1), _end("failed", 1, {"type": "ValueError", "message": "bad row"}),
             _end("failed", 0, LOST_PEER)],
            ELASTIC.format(1, 1, 0, 1), 1, ("failed", "ValueError: bad row"),
        ),
        # A scheduler ends the launcher, which ends its ranks.
        (
            [_start(0), _start(1)],
            FRAMES + "torch.distributed.elastic.multiprocessing.api.SignalException: Process 16442 got signal: 15\n",
            1, ("killed", "rank 0 ended without a word (SIGTERM)"),
        ),
        # The ranks went on without a launcher.
        ([_start(), _end("finished")], "", -15, ("finished", None)),
        ([_start(0), _start(1), _end("finished", 0)], "", None,
         ("killed", f"rank 1 ended without a word (probably {MEMORY})")),
        (
            [_start(), _end("finished")], DIED.format("SIGSEGV", 11), 1,
            ("failed", f"training came to its end, then its process failed on exit ({CRASH})"),
        ),
        # Elastic started the ranks anew, and then they came to their end.
        ([_start(), _start(), _end("finished")], "", 0, ("finished", None)),
        ([_start(), _end("stopped")], "", 0, ("stopped", "by request, with a checkpoint")),
        ([_start()], "", 0, ("finished", "its last word is missing in the record; the exit code is 0")),
        ([_start()], RAISED + EXITED.format(1), 1, ("failed", "ValueError: no such column: 'text'")),
        ([_start(), {"attempt": 1, "event": "kill"}], "", None, ("killed", "by request (stop --now)")),
        ([], RAISED + EXITED.format(1), 1, ("failed", "ValueError: no such column: 'text'")),
        ([], "run.py: error: bad flag\n" + EXITED.format(2), 1, ("failed", "run.py: error: bad flag")),
        ([], EXITED.format(2), 1, ("failed", "exit code 1")),
        ([], "", -15, ("killed", "by signal SIGTERM")),
        ([], "", -40, ("killed", "by signal 40")),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_the_first_cause_is_told(
    tmp_path: Path, events: list[dict[str, Any]], log: str, code: int | None, ending: tuple[str, str | None]
) -> None:
    run = _run(tmp_path / "run", events, log)
    assert how_it_ended(run, 1, code, killed=False)[:2] == ending


@pytest.mark.parametrize(
    ("log", "exception", "line"),
    [
        ("one\n\n======\n\x1b[0m\n", "", "one"),
        ("100%|██| 3/3\r\nsaved\r\n---\n", "", "saved"),
        ("[rank1]: Traceback (most recent call last):\n[rank1]:   File x\n[rank1]: KeyError: 'a'\n", "KeyError: 'a'",
         "[rank1]: KeyError: 'a'"),
        (RAISED, "ValueError: no such column: 'text'", "the columns are a, b"),
        ("Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("Traceback (most recent call last):\n", "", "Traceback (most recent call last):"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_what_a_log_says_last(tmp_path: Path, log: str, exception: str, line: str) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(log.encode())
    words = read_last_words(path)
    assert (words.exception, words.line) == (exception, line)


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert read_last_words(tmp_path / "none").line == ""


@pytest.mark.parametrize(
    "launcher",
    [("--num_processes", "1"), pytest.param(("--multi_gpu", "--num_processes", "2"), marks=pytest.mark.full)],
    ids=["one rank", "two ranks"],
)
def test_the_installed_launcher_words_a_killed_rank_as_it_is_read(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    script = tmp_path / "rank.py"
    script.write_text(
        RECORD + "import signal, time\n"
        "rank = int(os.environ.get('RANK', 0)); begin(rank)\n"
        "if rank == int(os.environ.get('WORLD_SIZE', 1)) - 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(60)\n"
    )
    run = make_run(tmp_path / "run", "")
    command = (*worker_command(Path(sys.executable), "launch", *launcher), str(script))
    made = run.read_command(1)
    run.write("attempts/1/command.json", {"schema": 1, "argv": command, "cwd": made.cwd,
                                          "environment": made.environment})  # fmt: skip
    Supervisor(run, gpus=NoGpus()).supervise()
    state = run.read_state()
    reason = str(state.reason).replace(_KILLS[False], _KILLS[None])  # where the kernel counts, it is certain
    rank = 1 if "2" in launcher else 0
    assert (state.phase, reason) == ("killed", f"rank {rank} ended without a word ({MEMORY})")
