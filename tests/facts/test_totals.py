"""What prepared rows add up to."""

from __future__ import annotations

from typing import Any

from kerneltui.facts.prepared import Prepared, TokenSequence
from kerneltui.facts.totals import Totals, totals


def _made(*tokens: int, loss: int | None = 1, eos: bool = True, **more: Any) -> Prepared:
    sequences = tuple(
        TokenSequence(row=row, name="text", tokens=length, loss_tokens=loss, has_eos=eos)
        for row, length in enumerate(tokens, 1)
    )
    return Prepared(**{"sequences": sequences, **more})


def test_lengths_become_shares() -> None:
    found = totals(_made(10, 20, 30, 40, max_length=30))
    assert (found.rows, found.tokens, found.whole, found.cut_share) == (4, 90, 100, 0.25)
    assert (found.epoch_tokens(400), found.epoch_tokens(None)) == (9000, None)
    assert (found.loss_share, found.longest, found.median) == (0.04, 40, 20)
    assert totals(_made(10, 20, dropped=(2,))).tokens == 10
    assert totals(_made(10, loss=None)).loss_share is None
    assert totals(_made(10, 20, loss=0)).silent == 2
    assert totals(_made(10, 20, eos=False)).without_end == 2


def test_how_full_packing_makes_the_sequences() -> None:
    assert totals(_made(5)).density is None
    packed = totals(_made(45, packed=(30, 15), max_length=30))
    assert (packed.density, packed.packs, packed.cut) == (0.75, True, 0), "it is split, not cut"
    assert totals(_made(45, packed=(30,), max_length=30)).cut == 1
    would = totals(_made(10, 20, packable=(30,), max_length=30))
    assert (would.density, would.packs) == (1.0, False)


def test_pieces_add_up() -> None:
    one, two = totals(_made(10, 40, max_length=30, packable=(30, 10))), totals(_made(10, max_length=30, packable=(10,)))
    both = one + two
    assert (both.rows, both.tokens, both.lengths, both.cut) == (3, 50, {10: 2, 40: 1}, 1)
    assert both.density == 50 / 90
    assert (Totals() + one) == one
