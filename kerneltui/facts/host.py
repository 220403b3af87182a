"""What the host tells at once: its name, its system, the variables that matter, and what this process may use."""

from __future__ import annotations

import platform
from typing import Any

from kerneltui.facts.environment import read_environment
from kerneltui.facts.limits import read_limits
from kerneltui.text import now, plain_line


def read_host() -> dict[str, Any]:
    """Return the fields of `Server` that can be read at once."""
    return {
        "time": now(),
        "hostname": plain_line(platform.node()),
        "system": platform.system(),
        "machine": platform.machine(),
        "release": platform.release(),
        "environment": read_environment(),
        **read_limits(),
    }
