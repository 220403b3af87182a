"""Record what an environment's TRL says of the plans in tests/advice/version_cases.py.

`python -m tests.tools.record_answers [DIR]` asks the interpreter in DIR (default: this one), made by
tests/tools/older_environment.sh, and writes tests/advice/answers/trl-VERSION.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kerneltui import demo
from kerneltui.interpreter import Asker, find_interpreter
from tests.advice.version_cases import CASES

ANSWERS = Path(__file__).parents[1] / "advice" / "answers"


def ask(asker: Asker) -> dict[str, Any]:
    """Return the versions of the packages and the answer to each case, by its name."""
    packages = asker.ask("packages")
    names = ("trl", "transformers", "peft", "liger-kernel")
    answers = {
        case.name: asker.ask("trl.construct", trainer=case.trainer, values=case.given, model=str(demo.model_path()))
        for case in CASES
    }
    return {"versions": {name: packages[name]["version"] for name in names}, "answers": answers}


def main() -> None:
    python = find_interpreter(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    with Asker(python) as asker:
        found = ask(asker)
    path = ANSWERS / f"trl-{found['versions']['trl']}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    refused = sum(bool(answer["refused"]) for answer in found["answers"].values())
    print(f"{path}: {len(found['answers'])} answers, {refused} refused")


if __name__ == "__main__":
    main()
