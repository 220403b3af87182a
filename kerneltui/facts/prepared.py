"""What the trainer makes of the rows that were read: tokens, the loss mask, what is cut, left out or refused."""

from __future__ import annotations

from collections.abc import Sequence

from kerneltui.records import Record


class Refusal(Record):
    """What the trainer said when it refused the rows, in the words of the library.

    `row` (from 1) is the first one with which it fails, `column` the one that it fails of, each where it could be told.
    Without a row it refuses its options, whatever the data.
    """

    error: str
    row: int | None = None
    column: str | None = None


class TokenSequence(Record):
    """One sequence that a row becomes: the whole text, the prompt, or the prompt with one of the answers (`name`).

    `tokens` is its length before it is cut, `loss_tokens` how many of them the loss counts (None where the trainer
    generates what it learns from), `has_eos` whether the tokenizer's end-of-sequence token is in it.
    """

    row: int
    name: str
    tokens: int
    loss_tokens: int | None = None
    has_eos: bool = False


class Piece(Record):
    """A run of `count` tokens that fare alike: whether the loss counts them, and whether the trainer keeps them.

    `ids` and `tokens`, the text of each, are empty for the middle of a long sequence, which is not handed over.
    """

    text: str
    loss: bool
    kept: bool = True
    count: int = 0
    ids: tuple[int, ...] = ()
    tokens: tuple[str, ...] = ()


class Example(Record):
    """A sequence as the trainer sees it, in the order of its tokens."""

    row: int
    name: str
    pieces: tuple[Piece, ...]

    @property
    def length(self) -> int:
        """Its tokens, those that are cut included."""
        return sum(piece.count for piece in self.pieces)


class Prepared(Record):
    """What the installed trainer made of the rows that were read, on this machine and without the model's weights.

    `dropped` are the rows that it leaves out (too long, or nothing left for the loss), `max_length` where it cuts, in
    tokens; `packed` the lengths of the sequences that packing fills, None without packing, and `packable` those that it
    would fill, None where the trainer has no packing. `constructed` tells that the trainer's own constructor took the
    rows; of the trainers that generate only the prompts were looked at.
    """

    sequences: tuple[TokenSequence, ...]
    dropped: tuple[int, ...] = ()
    max_length: int | None = None
    packed: tuple[int, ...] | None = None
    packable: tuple[int, ...] | None = None
    eos: str | None = None
    pad: str | None = None
    examples: tuple[Example, ...] = ()
    constructed: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """The tokens of each sequence before it is cut, for a histogram."""
        return tuple(sequence.tokens for sequence in self.sequences)

    @property
    def rows(self) -> int:
        """How many rows the trainer was given."""
        return len({sequence.row for sequence in self.sequences})

    @property
    def cut_share(self) -> float:
        """The share of sequences that lose their end at `max_length`, 0 to 1; rows that are left out do not count."""
        if self.max_length is None or not self.sequences:
            return 0.0
        cut = [it for it in self.sequences if it.tokens > self.max_length and it.row not in self.dropped]
        return len(cut) / len(self.sequences)

    def padding(self, batch: int) -> float:
        """Return the share of padding in batches of `batch` sequences in the order of the rows, 0 to 1."""
        lengths = self.lengths if self.max_length is None else [min(n, self.max_length) for n in self.lengths]
        batches: list[Sequence[int]] = [lengths[at : at + batch] for at in range(0, len(lengths), max(1, batch))]
        room = sum(max(part) * len(part) for part in batches)
        return 1 - sum(lengths) / room if room else 0.0
