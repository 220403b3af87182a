"""Start training as the `trl` command does: `accelerate launch`, without this directory on the path."""

from __future__ import annotations


def main() -> None:
    """Run `accelerate launch` with this program's arguments."""
    from accelerate.commands.launch import launch_command, launch_command_parser

    launch_command(launch_command_parser().parse_args())
