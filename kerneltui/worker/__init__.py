"""Programs that run inside the training interpreter, the only place where the training packages are imported.

They use the standard library and the training packages, nothing else of kerneltui, and are started by path through
`run.py`, so that the training interpreter need not have kerneltui.
"""
