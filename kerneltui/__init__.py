"""kerneltui: train with TRL on the fastest attention kernel that really works on this GPU server."""

__version__ = "0.1.0"
