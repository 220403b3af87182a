"""The command `kerneltui`: its verbs, its exit codes."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import click

from kerneltui import __version__
from kerneltui.cli import options
from kerneltui.cli.bench import bench
from kerneltui.cli.data import data
from kerneltui.cli.fetch import fetch
from kerneltui.cli.kernels import kernels
from kerneltui.cli.output import tell_error
from kerneltui.cli.plan import check, export
from kerneltui.cli.prove import prove
from kerneltui.cli.runs import checkpoint, compare, delete, resume, runs, stop, tag, watch
from kerneltui.cli.screen import full_screen
from kerneltui.cli.server import doctor, report
from kerneltui.cli.situation import refuse_recorded
from kerneltui.cli.start import demo, launch
from kerneltui.errors import KerneltuiError


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@options.python
@options.server
@options.runs_dir
@click.pass_context
def app(context: click.Context, python: Path | None, server: Path | None, runs_dir: Path | None) -> None:
    """Train with TRL on the fastest attention kernel that really works on this GPU server.

    Without a command: the full screen.
    """
    if context.invoked_subcommand is None:
        full_screen(python, server, runs_dir)
    if server is not None and context.invoked_subcommand in ("launch", "demo", "prove"):
        refuse_recorded(server)
    given = {"python": python, "server": server, "runs_dir": runs_dir}
    context.default_map = {name: {k: v for k, v in given.items() if v is not None} for name in app.commands}


_VERBS = (
    *(doctor, kernels, check, data, prove, bench, fetch, launch, demo),
    *(runs, watch, stop, checkpoint, resume, compare, tag, delete, export, report),
)
for _verb in _VERBS:
    app.add_command(_verb)


def main() -> None:
    """Run the command; errors that a person can mend are told without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a sign gets a question mark
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="kerneltui", standalone_mode=False)
        sys.stdout.flush()
    except KerneltuiError as error:
        tell_error(error)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        tell_error(KerneltuiError("Cannot write the output", error.strerror or str(error)))
        code = 1
    raise SystemExit(code)
