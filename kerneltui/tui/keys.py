"""The one table of keys: bindings, footer and help are made from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.binding import Binding, BindingType


@dataclass(frozen=True)
class Key:
    """A key of a screen. `keys` as in `Binding` ("n", "left,h"); `label` stands in the footer, `help` in the help.

    `footer` is whether it is shown in the footer, which holds at most seven.
    """

    keys: str
    action: str
    label: str
    help: str
    footer: bool = True
    shown_as: str | None = None

    def while_typing(self) -> Key | None:
        """Return the key as it works while letters are typed: by another of its keys, or not at all."""
        found = next((name for name in self.keys.split(",") if len(name) > 1 and name not in _LETTERS), None)
        if found is None:
            return None
        shown = self.shown_as if found == self.keys.split(",")[0] else found.replace("ctrl+", "^")
        return replace(self, shown_as=shown)


# Keys with a name of several letters that are typed all the same.
_LETTERS = ("question_mark", "slash", "space", "delete", "backspace")

EVERYWHERE = (
    Key("question_mark,f1", "help", "Help", "Show all keys of this screen, and what it is for.", shown_as="?"),
    Key(
        "ctrl+p",
        "command_palette",
        "Commands",
        "Find any command by typing a part of its name.",
        footer=False,
        shown_as="^p",
    ),
)
HOME = (
    Key("enter", "open", "Open", "Open the run under the cursor."),
    Key("n", "new", "New run", "Plan a new run, step by step."),
    Key(
        "g",
        "guides",
        "Ready plans",
        "Start from a small model and data, sized to this server.",
        footer=False,
    ),
    Key("o", "open_config", "Open config", "Start from a TRL configuration file that you have."),
    Key("k", "kernels", "Kernels", "The kernels of the Hub, each with a verdict for this server."),
    Key("d", "doctor", "Doctor", "What is on this server, and what is wrong with it."),
    Key("s", "stop", "Stop", "Stop the run under the cursor, with a checkpoint."),
    Key("r", "resume", "Resume", "Go on with the run under the cursor, from its newest good checkpoint (asks first)."),
    Key("slash", "filter_runs", "Filter", "Narrow the list of runs by words or #tags.", footer=False, shown_as="/"),
    Key("S", "sort_runs", "Sort", "Sort the runs by loss, speed, GPU hours, name or state.", footer=False),
    Key("t", "tag", "Tag", "Change the tags of the run under the cursor.", footer=False),
    Key("delete", "delete_run", "Remove", "Remove the run under the cursor (asks).", footer=False, shown_as="del"),
    Key("ctrl+r", "refresh", "Refresh", "Read the server and the runs again.", footer=False, shown_as="^r"),
    Key("q", "quit", "Quit", "Leave kerneltui; runs go on."),
)
DOCTOR = (
    Key("enter", "details", "Details", "Why a finding is one, what mends it, and where that can be read."),
    Key("c", "copy_fix", "Copy fix", "Copy the command that mends the finding under the cursor."),
    Key("y", "copy_report", "Copy report", "Copy the whole report as text, and write it to a file."),
    Key("r", "refresh", "Refresh", "Read the server again."),
    Key("escape,q", "back", "Back", "Go back.", shown_as="esc"),
)
KERNELS = (
    Key("enter", "open", "Open", "Its revisions with a verdict each, and its card."),
    Key("slash", "filter", "Filter", "Narrow the list by name; enter there searches all publishers.", shown_as="/"),
    Key("a", "everything", "Judge all", "Judge also those that are not for attention: two requests each."),
    Key("r", "refresh", "Refresh", "Ask the Hub again."),
    Key("escape,q", "back", "Back", "Go back; from a search first to the whole list.", shown_as="esc"),
)
REPOSITORY = (
    Key("y", "copy", "Copy", "Copy the kernel with this revision, as attn_implementation takes it."),
    Key("r", "refresh", "Refresh", "Ask the Hub again."),
    Key("escape,q", "back", "Back", "Go back.", shown_as="esc"),
)
DATA = (
    Key("right,n", "next_row", "Next row", "Show the next row, ← the one before.", shown_as="→"),
    Key("left,p", "previous_row", "Previous row", "Show the row before.", footer=False, shown_as="←"),
    Key("t", "mode", "Tokens", "Show the row as text, token by token with the numbers, or as it is stored."),
    Key("s", "scan", "Scan all", "Read all rows, so that nothing is estimated; again stops it."),
    Key(
        "c",
        "choose",
        "Choose",
        "Choose the configuration and the split; of a mixture those of the part under the cursor.",
    ),
    Key("m", "mend", "Mend", "Write a copy with the columns that the trainer reads, where others could serve."),
    Key("a", "add", "Add", "Add a data set, which TRL joins with what is there.", footer=False),
    Key("delete,backspace", "remove", "Remove", "Take the part under the cursor out of the mixture.", footer=False),
    Key("escape,q", "back", "Back", "Go back to the plan, with what was changed.", shown_as="esc"),
)
WIZARD = (
    Key("enter", "take", "Take it", "Take what is marked and go to the next step."),
    Key("escape", "back", "Back", "Go one step back; no answer is lost.", shown_as="esc"),
    Key("ctrl+right", "next", "Next", "Go to the next step without changing anything.", footer=False, shown_as="^→"),
    Key("ctrl+left", "back", "Previous", "Go one step back.", footer=False, shown_as="^←"),
    Key("f,ctrl+f", "fix", "Fix", "Apply the fix at which the findings show this key."),
    Key("i,ctrl+d", "details", "Details", "Show all findings: why, where that can be read, and every fix."),
    Key("ctrl+r", "retry", "Retry", "Ask again what could not be found out.", footer=False, shown_as="^r"),
    Key("ctrl+n", "anew", "Start over", "Begin a new plan at the first step.", footer=False, shown_as="^n"),
    Key("q", "home", "Home", "Go home; the plan is kept until kerneltui ends.", footer=False),
)
SERVER_STEP = (Key("space", "choose", "Choose GPU", "Use the GPU under the cursor, or not."),)
MODEL_STEP = (
    Key("ctrl+t", "data", "Rows", "See the rows as the trainer sees them; all about the data.", shown_as="^t"),
)
REVISION_STEP = (Key("p", "pin", "Pin", "Pin to the branch or to the commit."),)
OPTIONS_STEP = (
    Key("space", "edit", "Edit", "Type a value for the option under the cursor; turn a yes-or-no option over."),
    Key("slash", "find", "Find", "Find any field of TRL by its name or its help.", shown_as="/"),
    Key("delete,backspace", "reset", "Default", "Go back to TRL's default.", footer=False),
)
CHECK = (
    Key("l", "launch", "Launch", "Start the run in a session of its own, as Enter does.", footer=False),
    Key("p", "prove", "Prove", "Try the kernel and the trainer here, before the weights come; again: stop trying."),
    Key("e", "export", "Export", "Write the command, the YAML and a Python script for other hands."),
)
RUN = (
    Key("1", "pane('charts')", "Panes", "Enlarge the charts, 2 the GPUs, 3 the log; again for all.", shown_as="1-3"),
    Key("2", "pane('gpus')", "GPUs", "Enlarge the GPUs; again for all panes.", footer=False),
    Key("3", "pane('log')", "Log", "Enlarge the log; again for all panes.", footer=False),
    Key("k", "checkpoint", "Checkpoint", "Save a checkpoint at the next step and go on."),
    Key("s", "stop", "Stop", "Stop at the next step, with a checkpoint and the final model saved."),
    Key("K", "kill", "Stop now", "End it at once, without a checkpoint (asks first).", footer=False),
    Key("r", "resume", "Resume", "Go on from the newest good checkpoint, as the next attempt (asks first)."),
    Key("slash", "search", "Search", "Search the log by a regular expression, from its end upwards.", shown_as="/"),
    Key("n", "again(False)", "Next match", "Go to the next line below that matches.", footer=False),
    Key("N", "again(True)", "Match before", "Go to the next line above that matches.", footer=False),
    Key("e", "signs(False)", "Next error", "Go to the next error or warning below in the log.", footer=False),
    Key("E", "signs(True)", "Error before", "Go to the next error or warning above in the log.", footer=False),
    Key("f", "follow", "Follow", "Follow the end of the log, or stop following.", footer=False),
    Key("l,escape,q", "leave", "Leave", "Leave this pane; the run goes on.", shown_as="l"),
)


def name_of(key: Key) -> str:
    """Return what a key is called in the footer, the help and the commands."""
    return key.shown_as or key.keys.split(",")[0]


def bindings(*tables: tuple[Key, ...]) -> list[BindingType]:
    """Return Textual's bindings for some tables of keys."""
    return [
        Binding(key.keys, key.action, key.label, show=key.footer, key_display=key.shown_as)
        for table in tables
        for key in table
    ]
