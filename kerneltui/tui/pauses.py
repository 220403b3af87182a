"""Keep Python's garbage collector from stopping the screen.

A full collection looks at every object that lives, most of which are imported modules: on a busy server it takes a
third of a second, in which no key is heard; and the thread that imports most is not the one that hears keys. Full
collections are therefore made rare, what lives when a screen has opened is set aside (`gc.freeze`), and what a screen
has left behind is collected when it is closed, where a pause is not felt.
"""

from __future__ import annotations

import gc
import sys

# One full collection for so many of the middle generation; Python's own 10 mean one for each 70 000 new objects.
_RARELY = 1000
# For how long, in seconds, a thread that computes may keep the screen waiting, each time; Python's own is 5 ms.
_TURN = 0.001


def screen_first() -> None:
    """Make full collections rare, and let threads behind the screen give way to it sooner."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _RARELY)
    sys.setswitchinterval(_TURN)


def set_aside() -> None:
    """Take all that lives now out of the collector's sight; takes no time."""
    gc.freeze()


def collect() -> None:
    """Collect everything that is no longer used, and set the rest aside; takes as long as a full collection."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
