"""What prepared rows add up to: of the first ones, or of all of them one piece after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kerneltui.facts.prepared import Prepared
from kerneltui.records import Record


class Totals(Record):
    """Sums over `rows` rows. All that is counted in tokens is as the trainer counts it.

    `tokens` are those that one pass trains on: after cutting, without the rows that are left out; `whole` those before.
    `lengths` are how many `sequences` have how many tokens before they are cut, and `cut` of them lose some. `left_out`
    are rows that the trainer drops, `silent` those (with them) in which no token counts for the loss, `without_end`
    those in no sequence of which the end-of-sequence token stands. `loss` are the tokens that count before cutting,
    None where the trainer generates what it learns from. `packed` sequences of `max_length` hold `packed_tokens`, None
    where the trainer cannot pack; `packs` tells whether it does.
    """

    rows: int = 0
    sequences: int = 0
    tokens: int = 0
    whole: int = 0
    lengths: dict[int, int] = {}
    cut: int = 0
    left_out: int = 0
    silent: int = 0
    without_end: int = 0
    loss: int | None = None
    max_length: int | None = None
    packed: int | None = None
    packed_tokens: int = 0
    packs: bool = False

    @property
    def cut_share(self) -> float:
        """The share of sequences that lose tokens, 0 to 1."""
        return self.cut / self.sequences if self.sequences else 0.0

    @property
    def loss_share(self) -> float | None:
        """The share of tokens that the loss counts, 0 to 1; None where the trainer generates."""
        return None if self.loss is None else self.loss / max(1, self.whole)

    @property
    def density(self) -> float | None:
        """How full packing makes (or would make) the sequences, 0 to 1; None where the trainer cannot pack."""
        return self.packed_tokens / (self.packed * self.max_length) if self.packed and self.max_length else None

    @property
    def longest(self) -> int:
        """The tokens of the longest sequence before it is cut."""
        return max(self.lengths, default=0)

    @property
    def median(self) -> int:
        """The tokens of the sequence in the middle, by length."""
        return median(self.lengths)

    def epoch_tokens(self, total: int | None) -> int | None:
        """Return the tokens of an epoch over `total` rows, estimated from these; None where `total` is not known."""
        return None if total is None or not self.rows else round(self.tokens / self.rows * total)

    def __add__(self, other: Totals) -> Totals:
        """Return the sums over the rows of both."""
        return Totals(
            rows=self.rows + other.rows,
            sequences=self.sequences + other.sequences,
            tokens=self.tokens + other.tokens,
            whole=self.whole + other.whole,
            lengths=dict(sorted((Counter(self.lengths) + Counter(other.lengths)).items())),
            cut=self.cut + other.cut,
            left_out=self.left_out + other.left_out,
            silent=self.silent + other.silent,
            without_end=self.without_end + other.without_end,
            loss=_sum(self.loss, other.loss),
            max_length=other.max_length,
            packed=_sum(self.packed, other.packed),
            packed_tokens=self.packed_tokens + other.packed_tokens,
            packs=other.packs,
        )


def totals(made: Prepared) -> Totals:
    """Return what prepared rows add up to."""
    kept = [it for it in made.sequences if it.row not in made.dropped]
    limit, packs = made.max_length, made.packed is not None
    filled = made.packed if packs else made.packable
    whole = sum(made.lengths)
    # Some ways to pack cut nothing off.
    cuts = limit is not None and not (made.packed is not None and sum(made.packed) == whole)
    after = [min(it.tokens, limit) if cuts and limit else it.tokens for it in kept]
    counted = [it.loss_tokens for it in made.sequences if it.loss_tokens is not None]
    ends = {it.row for it in made.sequences if it.has_eos}
    return Totals(
        rows=made.rows,
        sequences=len(made.sequences),
        tokens=sum(made.packed) if made.packed is not None else sum(after),
        whole=whole,
        lengths=dict(sorted(Counter(made.lengths).items())),
        cut=sum(1 for it in kept if cuts and limit and it.tokens > limit),
        left_out=len(made.dropped),
        silent=len({it.row for it in made.sequences if it.loss_tokens == 0} | set(made.dropped)),
        without_end=made.rows - len(ends),
        loss=sum(counted) if counted else None,
        max_length=limit,
        packed=len(filled) if filled is not None else None,
        packed_tokens=sum(filled or ()),
        packs=packs,
    )


def median(lengths: Mapping[int, int]) -> int:
    """Return the length in the middle, where `lengths` are how many have which; 0 where there are none."""
    passed, half = 0, sum(lengths.values()) / 2
    for length in sorted(lengths):
        passed += lengths[length]
        if passed >= half:
            return length
    return 0


def _sum(one: int | None, other: int | None) -> int | None:
    return (one or 0) + (other or 0) if one is not None or other is not None else None
