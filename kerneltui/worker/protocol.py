"""JSON lines between a worker and the front end.

One request a line on standard input: `{"id", "ask", "arguments"}`. For each, any number of `{"id", "progress"}` and
`{"id", "part", "value"}` lines, then one `{"id", "answer"}` or `{"id", "error": {"kind", "type", "message",
"package"}}`, on a duplicate of standard output; the real one is pointed at standard error, since libraries print.
A first `{"id": null, "progress"}` line says that the interpreter runs.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]

_output: io.TextIOBase | None = None
_request: Any = None


def serve(handlers: dict[str, Handler]) -> None:
    """Answer requests until standard input ends. A handler gets the request's arguments by name."""
    global _output, _request
    _output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    progress("ready")
    for line in sys.stdin:
        request = json.loads(line)
        _request = request["id"]
        try:
            _send(answer=handlers[request["ask"]](**request["arguments"]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a library raises is the answer
            traceback.print_exc(file=sys.stderr)
            _send(error=describe(error))


def describe(error: BaseException) -> dict[str, Any]:
    """Return an exception as the protocol's error: its kind, type, message and, where one is missing, the package."""
    # A module that an installed package lacks is no missing package.
    missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in ("", *sys.modules)
    return {
        "kind": "missing_package" if missing else "raised",
        "type": type(error).__name__,
        "message": str(error),
        "package": (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else "",
    }


def progress(text: str) -> None:
    """Tell the front end what is being done now."""
    _send(progress=text)


def part(name: str, value: Any) -> None:
    """Hand over one part of the answer as soon as it is known."""
    _send(part=name, value=value)


def _send(**message: Any) -> None:
    if _output is None:  # called outside `serve`, as in a test
        return
    # json.dumps would write NaN and Infinity, which are not JSON.
    _output.write(json.dumps({"id": _request, **message}, allow_nan=False, default=str) + "\n")
    _output.flush()
