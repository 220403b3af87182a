"""One step at full shape: the installed TRL script on random weights and rows of full length, and the memory it took.

`run.py measure OUT TRAINER [ARGUMENT …]`: the arguments are the script's, and `OUT` is the JSON file to write. Nothing
is downloaded but the model's configuration and its tokenizer; the weights are made on the device. The measured steps
are those of a real run, with its optimizer; only what follows training (saving, evaluating, reporting) is left out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from .random_training import train
from .record import describe
from .watermark import Watermark

# The optimizer's state exists from the first step on, so that the second has the highest peak.
_STEPS = 2


def main() -> None:
    """Run the script of a trainer for two steps and write what was measured, or what it raised; exit 1 then."""
    out, trainer, *arguments = sys.argv[1:]
    watermark = Watermark()
    try:
        _measure(trainer, arguments, watermark)
    except watermark.Enough:
        _write(Path(out), watermark.report())
    except BaseException as error:
        _write(Path(out), {**watermark.report(), "error": describe(error)})
        raise SystemExit(1) from error
    else:
        _write(Path(out), {**watermark.report(), "error": {"type": "", "message": "training did not begin"}})
        raise SystemExit(1)


def _measure(trainer: str, arguments: list[str], watermark: Watermark) -> None:
    prompt_tokens = int(os.environ.get("KERNELTUI_PROMPT_TOKENS", "512"))
    train(trainer, arguments, {"max_steps": _STEPS}, watermark.install, prompt_tokens=prompt_tokens)


def _write(out: Path, report: dict[str, Any]) -> None:
    out.write_text(json.dumps(report, default=str), encoding="utf-8")
