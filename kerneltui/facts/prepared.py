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
    """Tokens of one kind in a row, as text; `loss` tells whether the loss counts them."""

    text: str
    loss: bool


class Example(Record):
    """A sequence as the trainer sees it; `cut` tells that it goes on."""

    row: int
    name: str
    pieces: tuple[Piece, ...]
    cut: bool = False


class Prepared(Record):
    """What the installed trainer made of the rows that were read, on this machine and without the model's weights.

    `dropped` are the rows that it leaves out (too long, or nothing left for the loss), `max_length` where it cuts, in
    tokens; `packed` the lengths of the sequences that packing fills, None without packing. `constructed` tells that the
    trainer's own constructor took the rows; of the trainers that generate only the prompts were looked at.
    """

    sequences: tuple[TokenSequence, ...]
    dropped: tuple[int, ...] = ()
    max_length: int | None = None
    packed: tuple[int, ...] | None = None
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

    @property
    def tokens(self) -> int:
        """The tokens that these rows give to one epoch, after cutting and without the rows that are left out."""
        kept = [sequence.tokens for sequence in self.sequences if sequence.row not in self.dropped]
        return sum(kept if self.max_length is None else [min(tokens, self.max_length) for tokens in kept])

    def epoch_tokens(self, total: int | None) -> int | None:
        """Return the tokens of an epoch over `total` rows, estimated from these; None where `total` is not known."""
        return None if total is None or not self.rows else round(self.tokens / self.rows * total)

    @property
    def loss_share(self) -> float | None:
        """The share of tokens that the loss counts, 0 to 1; None where the trainer generates."""
        counted = [sequence.loss_tokens for sequence in self.sequences if sequence.loss_tokens is not None]
        return sum(counted) / max(1, sum(self.lengths)) if counted else None

    @property
    def density(self) -> float | None:
        """How full packing makes the sequences, 0 to 1; None without packing."""
        if not self.packed or not self.max_length:
            return None
        return sum(self.packed) / (len(self.packed) * self.max_length)

    def padding(self, batch: int) -> float:
        """Return the share of padding in batches of `batch` sequences in the order of the rows, 0 to 1."""
        lengths = self.lengths if self.max_length is None else [min(n, self.max_length) for n in self.lengths]
        batches: list[Sequence[int]] = [lengths[at : at + batch] for at in range(0, len(lengths), max(1, batch))]
        room = sum(max(part) * len(part) for part in batches)
        return 1 - sum(lengths) / room if room else 0.0
