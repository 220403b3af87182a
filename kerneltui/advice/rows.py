"""What the trainer itself says of the rows that were read: refused options, rows that are cut or teach nothing."""

from __future__ import annotations

from collections.abc import Callable

from kerneltui.advice.finding import Finding, Fix, Severity
from kerneltui.advice.mapping import copy_fix, propose
from kerneltui.advice.situation import Situation
from kerneltui.facts.dataset import DatasetFacts

# The share of rows that are cut from which on a person is warned.
_MUCH = 0.05


def refused_options(situation: Situation) -> list[Finding]:
    """What the trainer refuses whatever the rows are, such as a token that the vocabulary lacks."""
    data = _asked(situation)
    if data is None or data.refused is None or data.refused.row is not None:
        return []
    return [_finding(situation, "options", "block", f"{data.trainer} refuses its options", f"{data.refused.error}.")]


def nothing_left(situation: Situation) -> list[Finding]:
    """Rows that are too long, or in which the loss counts no token, are left out or teach nothing."""
    data = _asked(situation)
    made = data.prepared if data else None
    if data is None or made is None or not made.sequences:
        return []
    silent = {it.row for it in made.sequences if it.loss_tokens == 0} | set(made.dropped)
    if not silent:
        return []
    rows = f"rows {', '.join(map(str, sorted(silent)[:5]))}" if len(silent) > 1 else f"row {min(silent)}"
    why = f"Of {made.rows} rows that were read it learns nothing from {len(silent)} ({rows}): "
    why += f"max_length is {made.max_length}, or no token counts for the loss."
    if len(silent) < made.rows:
        return [_finding(situation, "left_out", "warn", "Some rows teach nothing", why)]
    return [_finding(situation, "nothing_left", "block", "No row is left to train on", why)]


def no_end(situation: Situation) -> list[Finding]:
    """A model that never sees the end-of-sequence token does not learn to stop."""
    data = _asked(situation)
    made = data.prepared if data else None
    if made is None or not made.constructed or data is None or data.trainer not in ("sft", "gkd", "gold"):
        return []
    without = [it.row for it in made.sequences if not it.has_eos]
    if len(without) < len(made.sequences) or not without:
        return []
    why = f"None of the rows holds {made.eos}, the token that ends a text: the model may not learn to stop."
    return [_finding(situation, "no_eos", "warn", "The rows have no end-of-sequence token", why)]


def cut_rows(situation: Situation) -> list[Finding]:
    """Tokens behind `max_length` are not trained on."""
    data = _asked(situation)
    made = data.prepared if data else None
    if made is None or not made.constructed or made.packed is not None or made.cut_share < _MUCH:
        return []
    longest = max(made.lengths)
    share = f"{made.cut_share:.0%} of {made.rows} rows"
    why = f"{share} that were read are longer than {made.max_length} tokens (max_length), up to {longest}."
    fix = Fix(label="Keep them whole", changes={"max_length": longest})
    return [_finding(situation, "cut", "warn", "Many rows are cut", why, fix)]


def reward_lacks(situation: Situation) -> list[Finding]:
    """A reward function is called with the columns by their names, and fails without one that it wants."""
    data = _asked(situation)
    if data is None:
        return []
    why = f"{data.name} has {', '.join(data.types)}. It would fail when the first completions are scored."
    fixes = copy_fix(situation, propose(data, situation.plan.trainer))
    fixes = tuple(fix for fix in fixes if fix.mapping and len(fix.mapping.columns) > 1)
    return [
        _finding(situation, f"reward.{name}", "block", f"{name} needs the column {', '.join(columns)}", why, *fixes)
        for name, columns in data.reward_lacks.items()
    ]


def _asked(situation: Situation) -> DatasetFacts | None:
    """Return the data where it was read for the trainer of the plan."""
    data = situation.data
    return data if data and data.trainer == situation.plan.trainer else None


def _finding(situation: Situation, name: str, severity: Severity, title: str, why: str, *fixes: Fix) -> Finding:
    source = situation.cite_answer("trl", f"the data set preparation of {situation.plan.trainer}_trainer")
    return Finding(
        id=f"data.{name}", severity=severity, title=title, why=why, origin="asked", source=source, fixes=fixes
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    *(refused_options, nothing_left, no_end, cut_rows, reward_lacks),
)
