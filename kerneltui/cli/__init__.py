"""The command line: every verb without a screen."""

from kerneltui.cli.group import app, main

__all__ = ["app", "main"]
