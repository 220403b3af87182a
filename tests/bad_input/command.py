"""What a person can get wrong: each mistake has one message with a next step, an exit code, and leaves nothing behind.

Cheap mistakes go through the real command in a process of its own. Those that need the asker, whose imports take
seconds, run the same command in this process, with one asker and one recorded server for all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kerneltui import demo
from tests.advice.situations import make_server

NOBODY = "http://127.0.0.1:9"  # nothing listens there
FLASH = "kernels-community/flash-attn2@v2"
SERVER = make_server(torch="2.13.0", interpreter=sys.executable)
NO_HUB_HINT = "Check the network, proxy variables and HF_ENDPOINT; LOCAL_KERNELS can name a kernel on this disk."


class Said(NamedTuple):
    """What a command said: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


def told(title: str, *lines: str) -> str:
    """Return what an error looks like on standard error."""
    return "".join(f"{line}\n" for line in (f"✖ {title}", *(f"  {line}" for line in lines)))


def real(*arguments: str, cwd: Path, **environment: str) -> Said:
    """Run the command as a person does."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kerneltui", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment}, cwd=cwd, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def plan(path: Path, **changes: Any) -> None:
    """Write a configuration that nothing is wrong with, but for the changes; None leaves a key out."""
    values = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(demo.data_path("sft"))}],
        "use_cpu": True,
        "bf16": False,
        "max_steps": 2,
        "report_to": "none",
        **changes,
    }
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value is not None}))


def without_plan(text: str) -> str:
    """Leave out the lines on what would run, which a launch may say before it fails."""
    return re.sub(r"^Will run: .*\n(?:  .*\n)*", "", text, flags=re.MULTILINE)


def blocked(*findings: str) -> str:
    """Return what a launch says on standard error when these findings (lines of text) block it."""
    titles = [finding.splitlines()[0] for finding in findings]
    count = f"✖ {len(findings)} block{'s' if len(findings) > 1 else ''}\n"
    end = told(
        "Not launched: something blocks", *titles,
        "Mend what blocks (`kerneltui check` says why), or launch all the same with --force.",
    )  # fmt: skip
    return "".join(f"{finding}\n\n" for finding in findings) + count + end
