"""Keep Python's garbage collector from stopping the screen.

A full collection looks at every object that lives, most of which are imported modules: on a busy server it takes a
third of a second, in which no key is heard. What lives when a screen has opened is therefore set aside (`gc.freeze`),
and what a screen has left behind is collected when it is closed, where a pause is not felt.
"""

from __future__ import annotations

import gc


def set_aside() -> None:
    """Take all that lives now out of the collector's sight; takes no time."""
    gc.freeze()


def collect() -> None:
    """Collect everything that is no longer used, and set the rest aside; takes as long as a full collection."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
