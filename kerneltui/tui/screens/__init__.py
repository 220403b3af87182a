"""Screens: each a `.py` and a `.tcss` beside it."""
