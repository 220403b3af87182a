"""Running Python in a process of its own against the loopback Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

from tests.hub.server import LoopbackHub


def run_python(source: str, hub: LoopbackHub, *arguments: Any, **environment: str) -> Any:
    """Return what `source` printed on its last line, as JSON; it finds `arguments` (JSON too) in `arguments`.

    Raises AssertionError with its standard error when it fails.
    """
    preamble = "import json, sys\narguments = json.loads(sys.stdin.read())\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(source)],
        input=json.dumps(arguments),
        env={**os.environ, **hub.environment(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
