"""Rows and what they add up to, as lines: broken at cells, hostile text made plain, an estimate called one."""

from __future__ import annotations

import itertools

from rich.cells import cell_len

from kerneltui.advice.fit import Fit
from kerneltui.data_report import DataReport, Part, with_scan
from kerneltui.facts.dataset import Column, DatasetFacts
from kerneltui.facts.prepared import Example, Piece, Prepared, Refusal, TokenSequence
from kerneltui.facts.scan import Scan
from kerneltui.facts.totals import Totals, totals
from kerneltui.show_data import (
    Line,
    buckets,
    histogram_lines,
    padding_of,
    report_lines,
    row_lines,
    stored_lines,
    token_lines,
    total_lines,
)

HOSTILE = "[/red]\x1b[31m\x1b]0;title\x07 注意 مرحبا \u202eabc e\u0301\u200b\ttab"
PIECES = (
    Piece(text="<s>ask\n", loss=False, count=2, ids=(1, 7), tokens=("<s>", "ask\n")),
    Piece(text="5</s>", loss=True, count=2, ids=(5, 2), tokens=("5", "</s>")),
    Piece(text=" more", loss=True, kept=False, count=1, ids=(9,), tokens=(" more",)),
)
SHORT = Example(row=2, name="text", pieces=(PIECES[1],))
LONG = Example(row=1, name="text", pieces=PIECES)
MADE = Prepared(
    sequences=(
        TokenSequence(row=1, name="text", tokens=5, loss_tokens=3, has_eos=True),
        TokenSequence(row=2, name="text", tokens=2, loss_tokens=2, has_eos=True),
    ),
    max_length=4, eos="</s>", pad="<pad>", examples=(LONG, SHORT), packable=(4, 2),
)  # fmt: skip
DATA = DatasetFacts(
    name="rows.jsonl", split="train", columns=(Column(name="text", type="text"),), format="language modeling",
    rows=({"text": "ask"}, {"text": HOSTILE}), total=50, prepared=MADE, trainer="sft",
)  # fmt: skip
FITS = Fit(ok=True, reason="plain text")


def _report(**more: object) -> DataReport:
    return DataReport(**{"trainer": "sft", "fit": FITS, "data": DATA, "totals": totals(MADE), "batch": 2, **more})  # type: ignore[arg-type]


def test_a_row_is_marked_by_what_becomes_of_its_tokens() -> None:
    lines = row_lines(LONG, 40)
    assert lines == [Line("context", "<s>ask"), Line("loss", "5</s>"), Line("cut", " more")]
    assert padding_of(MADE, SHORT, 2) == 2, "beside a sequence that is cut at 4"
    assert row_lines(SHORT, 40, padding=2, pad="<pad>")[-1] == Line("padding", "2 times <pad>")
    assert padding_of(MADE, SHORT, 1) == 0


def test_tokens_are_numbered_and_escaped() -> None:
    assert [line.text.split(maxsplit=2) for line in token_lines(LONG, 40)][1] == ["1", "7", "ask\\n"]
    hidden = Example(row=1, name="text", pieces=(Piece(text="", loss=True, count=900), PIECES[1]))
    first, second, _ = token_lines(hidden, 40)
    assert (first.mark, second.text.split()[0]) == ("hidden", "900")


def test_hostile_rows_keep_their_width_and_lose_their_escapes() -> None:
    row = {"text": HOSTILE * 5, "messages": [{"role": "user", "content": HOSTILE}]}
    lines = [line.text for line in stored_lines(row, 30)]
    assert all(cell_len(line) <= 30 for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)
    assert any("user: [/red]" in line for line in lines)
    piece = Piece(text=HOSTILE, loss=True, count=1, ids=(1,), tokens=(HOSTILE,))
    shown = Example(row=1, name="text", pieces=(piece,))
    assert all(cell_len(line.text) <= 20 for line in [*row_lines(shown, 20), *token_lines(shown, 20)])


def test_a_histogram_has_equal_buckets_or_doubling_ones() -> None:
    assert [(it.low, it.high, it.number) for it in buckets({25: 3, 39: 1})] == [
        (24, 25, 3), (26, 27, 0), (28, 29, 0), (30, 31, 0), (32, 33, 0), (34, 35, 0), (36, 37, 0), (38, 39, 1),
    ]  # fmt: skip
    skewed = buckets({10: 90, 4000: 1})
    assert skewed[0].low == 0
    assert all(later.high + 1 == 2 * (earlier.high + 1) for earlier, later in itertools.pairwise(skewed))
    assert sum(it.number for it in skewed) == 91
    assert len(skewed) <= 8
    assert buckets({}) == []
    lines = histogram_lines({10: 90, 4000: 1}, 60, limit=1024)
    assert len({cell_len(line) for line in lines}) == 1
    assert [line for line in lines if "◀" in line] == [lines[-2]]


def test_an_estimate_says_that_it_is_one_and_a_scan_replaces_it() -> None:
    shown = dict(total_lines(_report()))
    assert shown["rows"] == "2 read of about 50"
    assert shown["an epoch"] == "about 150 tokens, by these rows"
    assert shown["cut"].startswith("50 % go beyond")
    assert shown["packing"] == "would fill 75 % of 2 sequences"
    scan = Scan(totals=Totals(rows=48, sequences=48, tokens=100, whole=100, lengths={2: 48}, max_length=4), done=True)
    scanned = dict(total_lines(with_scan(_report(), scan)))
    assert (scanned["rows"], scanned["an epoch"]) == ("48, all of them read", "100 tokens")
    refused = with_scan(_report(), Scan(refused=Refusal(error="KeyError: 'text'", row=31), done=True))
    assert refused.fit == Fit(ok=False, reason="row 31: KeyError: 'text'")


def test_a_report_in_words() -> None:
    text = "\n".join(report_lines(_report(), width=80, examples=1))
    for words in ("✔ sft: plain text", "row 1, text · 5 tokens · 3 count for the loss · with </s>", "× cut off"):
        assert words in text
    assert "row 2" not in text
    raw = DatasetFacts(name="a", split="train", columns=(), rows=({"text": "x"},), no_tokens="no model is named")
    text = "\n".join(report_lines(_report(data=raw, totals=Totals(rows=1)), width=80, examples=1))
    assert "… not tokenized: no model is named" in text
    part = Part(name="b", configuration="en", split="train", share=0.5, fit=Fit(ok=False, reason="no prompt"))
    text = "\n".join(report_lines(_report(data=None, error="Two parts\nno", parts=(part,)), width=80, examples=1))
    assert "✖ b · en · train · share 0.5: no prompt" in text
    assert "Two parts" in text
