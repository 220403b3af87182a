"""The product's word on a table of data files, held against the real trainers on the demo's model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.advice.data_cases import CASES, SAMPLE, Case


def _compare(cases: Iterable[Case]) -> None:
    """Let one process read each file and train on it, and compare; what is refused must name where it fails."""
    by_name = {case.name: case for case in cases}
    done = subprocess.run(
        [sys.executable, "-m", "tests.advice.data_truth"], input=json.dumps(list(by_name)),
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["name"] for answer in answers] == list(by_name)
    wrong = [answer for answer in answers if (answer["product"] is None) != (answer["trainer"] is None)]
    assert not wrong, wrong
    for answer in answers:
        said = by_name[answer["name"]].said
        assert bool(said) == (answer["product"] is not None), answer
        assert all(word.lower() in answer["product"].lower() for word in said), answer


def test_a_sample_of_files_is_judged_as_the_trainers_judge_it() -> None:
    _compare(case for case in CASES if case.name in SAMPLE)


@pytest.mark.full
def test_every_file_is_judged_as_the_trainers_judge_it() -> None:
    assert len({case.name for case in CASES}) == len(CASES) > 40
    _compare(CASES)
