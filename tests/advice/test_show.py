"""Findings as plain lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.show import cells, finding_lines, fix_text

FINDING = Finding(
    id="a.b",
    severity="block",
    title="The title",
    why="Why it is so.\nA second line.",
    origin="known",
    source="https://example.org/1",
    fixes=(Fix(label="Pack", changes={"packing": True}), Fix(label="Install", command="pip install 'a>=1'")),
)


def test_lines() -> None:
    assert finding_lines([FINDING], width=80) == [
        "✖ The title",
        "  Why it is so.",
        "  A second line.",
        "  → Pack: packing: true",
        "  → Install: $ pip install 'a>=1'",
        "  source: https://example.org/1",
        "",
        "✖ 1 block",
    ]
    assert finding_lines([], width=80) == ["✔ Nothing found that would fail"]


def test_fixes_are_written_as_yaml() -> None:
    changes = {
        "old": None,
        "max_length": 512,
        "model_init_kwargs": {"use_kernels": True},
        "attn_implementation": "sdpa",
    }
    assert fix_text(Fix(label="", changes=changes, nulls=("x",))) == (
        'max_length: 512; model_init_kwargs: {"use_kernels": true}; attn_implementation: sdpa; x: null; remove old'
    )
    assert fix_text(Fix(label="", changes={"a": "no", "b": "x: y"})) == "a: 'no'; b: 'x: y'"


def test_what_a_label_says_is_not_said_again() -> None:
    fixes = (Fix(label="Set a to 2", changes={"a": 2}), Fix(label="Remove a", changes={"a": None}))
    finding = Finding(id="a", severity="note", title="t", why="w", origin="known", source="s", fixes=fixes)
    assert finding_lines([finding], width=80)[2:4] == ["  → Set a to 2", "  → Remove a"]


def test_a_long_command_stays_whole() -> None:
    command = "python -m pip install " + " ".join(f"package-{number}" for number in range(20))
    finding = Finding(
        id="a",
        severity="note",
        title="t",
        why="w",
        origin="known",
        source="s",
        fixes=(Fix(label="l", command=command),),
    )
    assert f"    $ {command}" in finding_lines([finding], width=60)


def test_wide_characters_count_twice() -> None:
    assert cells("漢字") == 4
    assert cells("e\u0301") == 1
    wide = Finding(id="a", severity="warn", title="漢字 " * 30, why="", origin="known", source="s")
    assert all(cells(line) <= 50 for line in finding_lines([wide], width=50))


@given(st.text(), st.text(), st.sampled_from(["block", "warn", "note"]), st.integers(1, 200))
@settings(max_examples=200)
def test_nothing_from_outside_reaches_the_terminal_as_control(title: str, why: str, severity: str, width: int) -> None:
    finding = Finding(
        id="a", severity=severity, title=f"\x1b[31m{title}", why=f"{why}\x07", origin="known", source=title,  # type: ignore[arg-type]
        fixes=(Fix(label=why, changes={"a": title}),),
    )  # fmt: skip
    for line in finding_lines([finding], width=width):
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
