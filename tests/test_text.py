from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneltui.text import did_you_mean, nearest, plain, plain_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;Y2xpcA==\x1b\\text", "text"),
        ("\x9b31mred", "red"),
        ("a\x1bPq#0\x1b\\b", "ab"),
        ("\x1b[?1000h\x1bcx", "x"),
        ("\u202eevil", "evil"),
        ("nul\x00bel\x07", "nulbel"),
        ("你好 🚀 xin chào", "你好 🚀 xin chào"),
        ("[/red] [b", "[/red] [b"),
    ],
)
def test_control_sequences_do_not_pass(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_progress_bar_is_its_last_state() -> None:
    assert plain_line(" 10%|#   |\r 50%|##  |\r100%|####|") == "100%|####|"
    assert plain_line("done\r\nnext") == "done next"


@given(st.text())
def test_no_text_keeps_a_control_character(text: str) -> None:
    assert not [char for char in plain(text) if (ord(char) < 32 and char not in "\t\n") or 127 <= ord(char) < 160]


def test_the_nearest_name() -> None:
    assert did_you_mean("max_seq_length", ["max_length", "packing"]) == "Did you mean max_length?"
    assert did_you_mean("zzz", ["max_length"]) == ""


def test_the_nearest_name_keeps_its_capital_letters_and_needs_none() -> None:
    assert did_you_mean("qwen/qwen-0.6b", ["google/gemma", "Qwen/Qwen3-0.6B"]) == "Did you mean Qwen/Qwen3-0.6B?"
    assert nearest("SDPA", ["eager", "sdpa"]) == "sdpa"
