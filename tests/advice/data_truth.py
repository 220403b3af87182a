"""What the product says of data files and what the real trainers do with them: run as a program, one process for all.

Gets the names of cases on standard input, as a JSON list, and prints a JSON line for each: `{"name", "product",
"trainer"}`, each null where the file is accepted and else what was said.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from kerneltui import demo
from kerneltui.advice import data, rows
from kerneltui.errors import KerneltuiError
from kerneltui.facts.dataset import read_dataset
from kerneltui.facts.local_data import builder_of
from kerneltui.worker.datasets_adapter import preview
from tests.advice.data_cases import CASES, Case
from tests.advice.real_trainers import train_file
from tests.advice.situations import make_situation


class _Asker:
    """Asks in this process, which has imported the libraries already."""

    def ask(self, question: str, timeout: float = 0, on_progress: Any = None, **arguments: Any) -> Any:
        return json.loads(json.dumps(preview(**arguments)))


def main() -> None:
    wanted = json.load(sys.stdin)
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRL_EXPERIMENTAL_SILENCE="1")
    warnings.simplefilter("ignore")
    for case in CASES:
        if case.name in wanted:
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                answers = answer(case, Path(folder))
            print(json.dumps({"name": case.name, **answers}), flush=True)


def answer(case: Case, folder: Path) -> dict[str, str | None]:
    """Return what the product and what the trainer say of a case."""
    source = {"path": builder_of(f"rows.{case.ending}"), "data_files": str(case.write(folder))}
    return {"product": _product(case, source, folder), "trainer": train_file(case.trainer, source, case.options)}


def _product(case: Case, source: dict[str, Any], folder: Path) -> str | None:
    values = {"datasets": [source], "model_name_or_path": str(demo.model_path()), **_options(case)}
    try:
        facts = read_dataset(_Asker(), values, folder, case.trainer)  # type: ignore[arg-type]
    except KerneltuiError as error:
        return str(error)
    situation = make_situation(case.trainer, data=facts, given=case.options)
    found = [finding for rule in (*data.RULES, *rows.RULES) for finding in rule(situation)]
    blocks = [f"{finding.title}: {finding.why}" for finding in found if finding.severity == "block"]
    return "\n".join(blocks) or None


def _options(case: Case) -> dict[str, Any]:
    return {} if case.trainer in ("grpo", "rloo", "distillation") else {"max_length": 64, **case.options}


if __name__ == "__main__":
    main()
