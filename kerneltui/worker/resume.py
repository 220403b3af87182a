"""Going on from a checkpoint also where the script does not hand on `resume_from_checkpoint`: TRL before 1.14."""

from __future__ import annotations

import functools
from typing import Any


def hand_on(trainer_class: Any) -> None:
    """Let `train()` of a Trainer class take the checkpoint of its configuration where the script names none.

    TRL 1.5 to 1.13 call it bare (read in the released `trl/scripts/*.py`), and would start anew without a word.
    """
    bare = trainer_class.train

    @functools.wraps(bare)
    def train(self: Any, resume_from_checkpoint: Any = None, *arguments: Any, **named: Any) -> Any:
        chosen = resume_from_checkpoint or getattr(self.args, "resume_from_checkpoint", None)
        return bare(self, chosen, *arguments, **named)

    trainer_class.train = train
