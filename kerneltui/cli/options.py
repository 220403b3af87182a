"""The arguments and options that several verbs take, each written once."""

from __future__ import annotations

from pathlib import Path

import click

# `TRAINER [CONFIG] [TRL flags]`: flags that are not ours are TRL's.
PASS_ON = {"ignore_unknown_options": True}
_PATH = click.Path(path_type=Path)

trainer = click.argument("trainer")
arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[CONFIG] [TRL FLAGS]")
run = click.argument("run")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
python = click.option(
    "--python", type=_PATH, help="The training interpreter, or the folder of its virtual environment."
)
server = click.option("--server", type=_PATH, help="A server report that `doctor --json` wrote.")
runs_dir = click.option("--runs-dir", type=_PATH, help="The directory of the runs.")
gpus = click.option("--gpus", help="GPUs to use, by number in PCI bus order: 0,1")
name = click.option("--name", help="The run's name.")
on_alert = click.option(
    "--on-alert",
    metavar="CMD",
    help="A shell command to run at each alert; it gets KERNELTUI_ALERT_… variables and JSON on standard input.",
)
wait = click.option("--wait", is_flag=True, help="Follow the run and end with its result.")
