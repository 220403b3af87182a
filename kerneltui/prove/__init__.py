"""Trying a plan before its launch: the kernel's preflight, a rehearsal of the trainer, the memory it takes."""
