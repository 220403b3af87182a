"""Advice on plans that carry secrets: no fix shows one, none writes the mark that stands for one."""

from __future__ import annotations

from typing import Any

import pytest

from kerneltui.advice.fixes import use_attention, use_dtype
from kerneltui.advice.rules import judge
from tests.advice.situations import make_situation


@pytest.mark.parametrize(
    "kwargs",
    [
        {"token": "<hidden>", "attn_implementation": "sdpa", "dtype": "float32"},  # from a file, as the asker tells it
        '{"token": "nested", "attn_implementation": "sdpa", "dtype": "float32"}',  # from a flag
    ],
)
def test_a_fix_of_model_init_kwargs_leaves_a_token_out_and_says_so(kwargs: Any) -> None:
    situation = make_situation(given={"model_init_kwargs": kwargs})
    for fix, written in (
        (use_attention(situation, "eager", "Take eager"), {"attn_implementation": "eager", "dtype": "float32"}),
        (use_dtype(situation, "bfloat16"), {"attn_implementation": "sdpa", "dtype": "bfloat16"}),
    ):
        assert fix.changes == {"model_init_kwargs": written}
        assert fix.label.endswith(", without token (set HF_TOKEN in your shell)")


def test_a_token_in_model_init_kwargs_is_told() -> None:
    situation = make_situation(given={"model_init_kwargs": {"token": "<hidden>", "dtype": "bfloat16"}})
    (finding,) = [finding for finding in judge(situation) if finding.id.startswith("secrets.")]
    assert finding.title == "model_init_kwargs.token is written into the plan"
    assert finding.fixes[0].changes == {"model_init_kwargs": {"dtype": "bfloat16"}}
