"""The health of a run that goes on: pure rules over the last of its record, one module a subject.

Each rule gives alerts for a `Window`; `Health` gathers the window and says each alert once.
"""
