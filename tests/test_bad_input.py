"""What a person can get wrong: each mistake has one message with a next step, an exit code, and leaves nothing behind.

Cheap mistakes go through the real command in a process of its own. Those that need the asker, whose imports take
seconds, run the same command in this process, with one asker and one recorded server for all of them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from kerneltui import cli, demo
from kerneltui.facts.hub import Hub
from kerneltui.interpreter import TRAINING_REQUIREMENT, Asker, find_interpreter
from kerneltui.records import to_json
from kerneltui.runs.directory import ACTIVE
from kerneltui.runs.supervisor import start_supervisor
from tests.advice.situations import make_server
from tests.hub import LoopbackHub
from tests.runs.fakes import make_run
from tests.waiting import until

NOBODY = "http://127.0.0.1:9"  # nothing listens there
FLASH = "kernels-community/flash-attn2@v2"
SERVER = make_server(torch="2.13.0", interpreter=sys.executable)

NAME_RULE = "A run name starts with a letter, a digit or _, and has only letters, digits, _, ., + and - (at most 64)."
PYTHON_HINT = "Give the interpreter or the folder of its virtual environment with --python."
NO_HUB_HINT = "Check the network, proxy variables and HF_ENDPOINT; LOCAL_KERNELS can name a kernel on this disk."
UNTIL = "Until the Hub answers, kernels loads nothing, not even from the cache, so training would fail."


class Said(NamedTuple):
    """What a command said: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


def told(title: str, *lines: str) -> str:
    """Return what an error looks like on standard error."""
    return "".join(f"{line}\n" for line in (f"✖ {title}", *(f"  {line}" for line in lines)))


def real(*arguments: str, cwd: Path, **environment: str) -> Said:
    """Run the command as a person does."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kerneltui", *arguments],
        env={**os.environ, "COLUMNS": "200", **environment}, cwd=cwd, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def plan(path: Path, **changes: Any) -> None:
    """Write a configuration that nothing is wrong with, but for the changes; None leaves a key out."""
    values = {
        "model_name_or_path": str(demo.model_path()),
        "datasets": [{"path": "json", "data_files": str(demo.data_path("sft"))}],
        "use_cpu": True,
        "bf16": False,
        "max_steps": 2,
        "report_to": "none",
        **changes,
    }
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value is not None}))


# Mistakes that are told before anything is imported.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with files that are not what they are given for."""
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 3\n")
    (tmp_path / "on.yaml").write_text("on: 1\n")
    (tmp_path / "fine.yaml").write_text("max_steps: 2\n")
    (tmp_path / "notes.txt").write_text("not JSON")
    (tmp_path / "pyton.json").write_text('{"pyton": "3.11"}')
    (tmp_path / "newer.json").write_bytes(to_json({**msgspec.to_builtins(SERVER), "schema": 99}))
    (tmp_path / "noise").write_bytes(bytes(range(256)))
    (tmp_path / "noise").chmod(0o755)
    (tmp_path / "shell").write_text("#!/bin/sh\necho hello\necho 'no python module loaded' >&2\nexit 3\n")
    (tmp_path / "shell").chmod(0o755)
    (tmp_path / "calm-otter").mkdir()
    (tmp_path / "calm-otter" / "run.json").write_text("{}")
    return tmp_path


CHECK = ("check", "sft", "fine.yaml")
LAUNCH = ("launch", "sft", "fine.yaml", "--runs-dir", "runs")
CONFIG_HINT = "Give the path of a TRL configuration file (YAML)."
GPU_LINES = ("Each is one number, once.", "Give them in PCI bus order: --gpus 0,1")
RUNS_HINT = "Give --runs-dir, or the path of the run's directory."
USAGE = [
    (["check", "sft", "no.yaml"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["check", "sft", "no.yaml", "--json"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["check", "sft", "--config", "no.yaml"], "Cannot read {folder}/no.yaml", "No such file or directory", CONFIG_HINT),
    (["launch", "sft", "."], "Cannot read {folder}", "Is a directory", CONFIG_HINT),
    (
        ["launch", "sft", "broken.yaml", "--runs-dir", "runs"],
        "{folder}/broken.yaml is not YAML", "line 2, column 2: expected ',' or ']', but got ':'", "Correct that line.",
    ),
    (
        ["check", "sft", "on.yaml"],
        "{folder}/on.yaml has a key that is not text", "YAML reads it as True.",
        "Write the name of a setting, in quotes where YAML takes it for something else (on, off, yes, no).",
    ),
    (
        ["check", "sft", "fine.yaml", "--config=on.yaml"],
        "Two configuration files are given", "fine.yaml and on.yaml; TRL reads one.",
        "Give one file, and flags for what it does not say.",
    ),
    ([*LAUNCH, "--gpus", "x"], "'x' is no list of GPUs", *GPU_LINES),
    ([*CHECK, "--gpus", "-1"], "'-1' is no list of GPUs", *GPU_LINES),
    ([*CHECK, "--gpus", "0,0"], "'0,0' is no list of GPUs", *GPU_LINES),
    ([*LAUNCH, "--name", "a/b"], "'a/b' cannot name a run", NAME_RULE, "Give another name with --name."),
    ([*LAUNCH, "--name", ".."], "'..' cannot name a run", NAME_RULE, "Give another name with --name."),
    (["demo", "--name", "../x"], "'../x' cannot name a run", NAME_RULE, "Give another name with --name."),
    (
        [*LAUNCH, "--python", "/no/such/python"],
        "No Python interpreter at /no/such/python", "/no/such/python is not an executable file.", PYTHON_HINT,
    ),
    (
        ["doctor", "--python", "."],
        "No Python interpreter at .", "{folder}/bin/python is not an executable file.", PYTHON_HINT,
    ),
    (
        [*LAUNCH, "--python", "noise"],
        "Cannot start {folder}/noise", "Exec format error", "Give another interpreter with --python.",
    ),
    (
        ["doctor", "--json", "--python", "shell"],
        "{folder}/shell does not work as a Python interpreter", "It ended (exit code 3) instead of starting run.py.",
        "no python module loaded", PYTHON_HINT,
    ),
    ([*CHECK, "--server", "no.json"], "Cannot read no.json", "No such file or directory", "Check the path."),
    (
        [*CHECK, "--server", "notes.txt"],
        "notes.txt is not JSON", "JSON is malformed: invalid character (byte 4)",
        "Write the file again, or name another.",
    ),
    (
        [*CHECK, "--server", "pyton.json"],
        "pyton.json does not fit", "Object contains unknown field `pyton`", "Did you mean python?",
    ),
    (
        [*CHECK, "--json", "--server", "newer.json"],
        "newer.json was written by a newer kerneltui", "It has schema 99; this version reads up to 1.",
        "Update kerneltui.",
    ),
    (
        ["stop", "calm-oter", "--runs-dir", "."],
        "No run 'calm-oter' in {folder}", "`kerneltui runs` lists them.", "Did you mean calm-otter?",
    ),
    (["watch", "gone"], "No run 'gone' in {folder}/kerneltui-runs", "`kerneltui runs` lists them.", RUNS_HINT),
    (["checkpoint", "../x"], "No run '../x' in {folder}/kerneltui-runs", "`kerneltui runs` lists them.", RUNS_HINT),
    (["export", "sft", "--as", "slurm"], "No form 'slurm'", "There are shell, yaml, python.", "Choose one with --as."),
    (
        ["kernels", "flash-attn2"],
        "'flash-attn2' cannot be a kernel repository", "The owner is missing.",
        "Write owner/name, such as kernels-community/flash-attn2.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "title", "lines"), [(case[0], case[1], case[2:]) for case in USAGE],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_used_is_told_at_once(
    folder: Path, arguments: list[str], title: str, lines: tuple[str, ...]
) -> None:
    before = sorted(folder.rglob("*"))
    expected = told(*(line.format(folder=folder) for line in (title, *lines)))
    assert real(*arguments, cwd=folder) == (2, "", expected)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chek", "sft"], "Error: No such command 'chek'."),
        (["doctor", "--jsn"], "Error: No such option"),
        (["check"], "Error: Missing argument 'TRAINER'."),
        (["demo", "--steps", "0"], "Error: Invalid value for '--steps': 0 is not in the range x>=1."),
        (["demo", "--steps", "x"], "Error: Invalid value for '--steps': 'x' is not a valid integer range."),
    ],
)
def test_a_command_that_is_not_one_gets_its_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    said = real(*arguments, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("Usage: kerneltui ")
    assert message in said.err
    assert "--help' for help." in said.err


def test_a_runs_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    expected = told(f"Cannot read {tmp_path}/runs", "Not a directory", "Choose another directory with --runs-dir.")
    assert real("runs", "--runs-dir", "runs", "--json", cwd=tmp_path) == (1, "", expected)


def test_without_a_hub_the_list_of_kernels_says_what_to_check(tmp_path: Path) -> None:
    expected = told("The Hub cannot be reached", f"{NOBODY}: [Errno 111] Connection refused", NO_HUB_HINT)
    assert real("kernels", "--json", cwd=tmp_path, HF_ENDPOINT=NOBODY) == (1, "", expected)


def test_an_ended_run_takes_no_requests(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "done", "end('failed', {'type': 'ValueError', 'message': 'bad row'}); raise SystemExit(1)"
    )
    (run.path / "run.json").write_text("{}")
    start_supervisor(run)
    until(lambda: run.read_state().phase not in ACTIVE)
    before = sorted(run.path.rglob("*"))
    for arguments in (["stop", "done"], ["stop", "done", "--now"], ["checkpoint", "done"]):
        expected = told("done is not running", "It is failed: ValueError: bad row.", "`kerneltui runs` lists all runs.")
        assert real(*arguments, "--runs-dir", ".", cwd=tmp_path) == (1, "", expected)
    followed = real("watch", "done", "--plain", "--runs-dir", ".", cwd=tmp_path)
    assert followed == (1, f"✖ done failed: ValueError: bad row  (log: {run.output(1)})\n", "")
    assert sorted(run.path.rglob("*")) == before


# An interpreter without the training packages.


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment without packages."""
    path = tmp_path_factory.mktemp("bare") / "environment"
    venv.create(path, with_pip=False, symlinks=True)
    return path


@pytest.mark.parametrize(
    ("arguments", "package", "question"),
    [
        (["launch", "sft", "fine.yaml", "--runs-dir", "runs"], "trl", "trl.parse"),
        (["demo", "--runs-dir", "runs", "--json"], "trl", "trl.parse"),
        (["export", "sft", "fine.yaml", "--as", "yaml", "--packing"], "trl", "trl.parse"),
        (["kernels", FLASH, "--json"], "kernels", "kernels.variants"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_interpreter_without_the_packages_says_what_to_install(
    tmp_path: Path, hub: LoopbackHub, bare: Path, arguments: list[str], package: str, question: str
) -> None:
    (tmp_path / "fine.yaml").write_text("max_steps: 2\n")
    python = bare / "bin" / "python"
    said = real(*arguments, "--python", str(bare), cwd=tmp_path, **hub.environment())
    assert said == (
        1,
        "",
        told(
            f"{package} is not installed in {python}",
            f"It is needed to answer '{question}' (No module named '{package}').",
            f"uv pip install --python {python} '{TRAINING_REQUIREMENT}'",
        ),
    )
    assert not (tmp_path / "runs").exists()


def test_the_report_of_an_interpreter_without_the_packages_is_one_all_the_same(tmp_path: Path, bare: Path) -> None:
    said = real("doctor", "--json", "--python", str(bare), cwd=tmp_path)
    report = json.loads(said.out)
    assert (said.code, said.err, report["torch"], report["packages"]) == (0, "", None, {})
    assert report["unavailable"]["torch"] == "No module named 'torch'"


# Mistakes that the training packages or the Hub tell.


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, Asker]]:
    """Return one Hub and one asker that uses it."""
    with (
        LoopbackHub(tmp_path_factory.mktemp("huggingface")) as hub,
        Asker(find_interpreter(), environment=hub.environment()) as asker,
    ):
        yield hub, asker


@pytest.fixture
def hub_of_asker(shared: tuple[LoopbackHub, Asker]) -> Iterator[LoopbackHub]:
    """Return the Hub that `kerneltui` uses, with nothing wrong with it."""
    yield shared[0]
    shared[0].heal()


@pytest.fixture
def kerneltui(
    shared: tuple[LoopbackHub, Asker], hub_of_asker: LoopbackHub, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> Command:  # fmt: skip
    """Return the command itself, in this process, where a server is recorded and the asker has its imports done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("kerneltui.interpreter.Asker", lambda *_, **__: contextlib.nullcontext(shared[1]))
    monkeypatch.setattr("kerneltui.facts.hub.Hub", lambda *_, **__: Hub(hub_of_asker.url))
    monkeypatch.setattr("kerneltui.facts.read_server.read_server", lambda *_, **__: SERVER)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["kerneltui", *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = capsys.readouterr()
        return Said(code, out, without_plan(err))

    return run


def without_plan(text: str) -> str:
    """Leave out the lines on what would run, which a launch may say before it fails."""
    return re.sub(r"^Will run: .*\n(?:  .*\n)*", "", text, flags=re.MULTILINE)


def blocked(*findings: str) -> str:
    """Return what a launch says on standard error when these findings (lines of text) block it."""
    titles = [finding.splitlines()[0] for finding in findings]
    count = f"✖ {len(findings)} block{'s' if len(findings) > 1 else ''}\n"
    end = told(
        "Not launched: something blocks", *titles,
        "Mend what blocks (`kerneltui check` says why), or launch all the same with --force.",
    )  # fmt: skip
    return "".join(f"{finding}\n\n" for finding in findings) + count + end


def test_a_plan_without_mistakes_passes(kerneltui: Command, tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = kerneltui("check", "sft", "c.yaml", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["will_run"]["attention"]["variant"] == "torch213-cxx11-cpu-x86_64-linux"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_unknown_key_blocks_with_the_nearest_name(kerneltui: Command, tmp_path: Path, form: list[str]) -> None:
    plan(tmp_path / "c.yaml", packin=True)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", *form) == (
        1,
        "",
        blocked(
            "✖ TRL's sft has no field packin\n"
            "  Did you mean packing? TRL hands what it does not know to accelerate launch, which refuses it.\n"
            "  → Write packing instead of packin: packing: true; remove packin\n"
            "  → Remove packin\n"
            "  source: trl 1.16.0: scripts.sft.make_parser"
        ),
    )
    assert not (tmp_path / "runs").exists()
    said = kerneltui("check", "sft", "c.yaml", "--json")
    assert (said.code, said.err) == (1, "")
    assert [finding["id"] for finding in json.loads(said.out)["findings"]] == ["keys.unknown.packin"]


@pytest.mark.parametrize("command", [("check",), ("launch",), ("export", "--as", "python")])
def test_an_unknown_trainer_gets_the_nearest_name(kerneltui: Command, tmp_path: Path, command: tuple[str, ...]) -> None:
    plan(tmp_path / "c.yaml")
    verb, *options = command
    for trainer, hint in (("stf", "Did you mean sft?"), ("SFT", "Did you mean sft?"), ("x", "Choose one of them.")):
        assert kerneltui(verb, trainer, "c.yaml", *options) == (
            2, "",
            told(
                f"TRL has no trainer {trainer!r}",
                "The installed one has distillation, dpo, grpo, kto, reward, rloo, sft.", hint,
            ),
        )  # fmt: skip
    assert not (tmp_path / "kerneltui-runs").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--dtype", "float33"],
            "argument --dtype: invalid choice: 'float33' (choose from 'auto', 'bfloat16', 'float16', 'float32')",
        ),
        (["--learning_rate", "x"], "argument --learning_rate/--learning-rate: invalid float value: 'x'"),
        (["--learning_rate"], "argument --learning_rate/--learning-rate: expected one argument"),
        (["--pack"], "ambiguous option: --pack could match --packing, --packing_strategy, --packing-strategy"),
        (["--num_processes", "x"], "argument --num_processes/--num-processes: invalid int value: 'x'"),
        (["--max_steps", "3", "more.yaml"], "'more.yaml' is neither a flag nor the value of one"),
        (
            ["--accelerate_config", "nope"],
            "Accelerate config nope is neither a file nor a valid config in the `trl` package. "
            "Please provide a valid config name or a path to a config file.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_that_a_flag_cannot_have_is_told_in_trls_words(
    kerneltui: Command, tmp_path: Path, flags: list[str], message: str
) -> None:
    plan(tmp_path / "c.yaml")
    said = kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", *flags)
    if sys.version_info >= (3, 12):  # argparse's wording of choices differs between releases of Python
        said, message = said._replace(err=said.err.replace("'", "")), message.replace("'", "")
    title = "TRL does not accept these arguments for sft"
    assert said == (2, "", told(title, message, "`trl sft --help` lists them all."))
    assert not (tmp_path / "runs").exists()


MODEL_HINT = "Check model_name_or_path (a folder or a Hub name)."


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            "empty",
            (
                "No config.json in empty", "A model folder holds config.json beside its weights.",
                "Give the folder that save_pretrained wrote, or a checkpoint-N folder inside it.",
            ),
        ),
        ("./gone", ("No model folder at ./gone", "{folder}/gone does not exist.", MODEL_HINT)),
        ("gone/", ("No model folder at gone/", "{folder}/gone does not exist.", MODEL_HINT)),
        ("/no/such", ("No model folder at /no/such", "/no/such does not exist.", MODEL_HINT)),
        ("c.yaml", ("No model folder at c.yaml", "{folder}/c.yaml is a file.", MODEL_HINT)),
        (5, ("model_name_or_path is not text", "YAML reads it as 5.", "Give a folder or the name of a model.")),
    ],
    ids=["no config.json", "relative", "slash", "absolute", "a file", "a number"],
)  # fmt: skip
def test_a_model_that_is_not_there_is_told(
    kerneltui: Command, tmp_path: Path, model: object, lines: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    plan(tmp_path / "c.yaml", model_name_or_path=model)
    expected = told(*(line.format(folder=tmp_path) for line in lines))
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (2, "", expected)
    assert not (tmp_path / "runs").exists()


def test_a_model_that_the_hub_does_not_have_blocks(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path
) -> None:
    plan(tmp_path / "c.yaml", model_name_or_path="org/nothing")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (
        1,
        "",
        blocked(
            "✖ No model org/nothing on the Hub, or it is private\n"
            "  Nor is it a folder here. Client error '401 Unauthorized' for url "
            f"'{hub_of_asker.url}/org/nothing/resolve/main/config.json'\n"
            "  Check the name; for a private model log in with `hf auth login`.\n"
            "  What depends on the model (its class, its heads, its dtype) was not checked.\n"
            "  source: transformers 5.22.2: AutoConfig.from_pretrained"
        ),
    )
    assert not (tmp_path / "runs").exists()


def test_a_configuration_of_a_model_that_is_not_json_blocks(kerneltui: Command, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{nonsense")
    plan(tmp_path / "c.yaml", model_name_or_path="model")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (
        1,
        "",
        blocked(
            "✖ The configuration of model cannot be read\n"
            f"  It looks like the config file at '{tmp_path}/model/config.json' is not a valid JSON file.\n"
            "  Check the model.\n"
            "  What depends on the model (its class, its heads, its dtype) was not checked.\n"
            "  source: transformers 5.22.2: AutoConfig.from_pretrained"
        ),
    )


@pytest.mark.parametrize(
    ("file", "content", "lines"),
    [
        (
            "data.jsonl", '{"a": 1}\n{oops\n',
            (
                "The data file {folder}/data.jsonl is not JSON",
                "Line 2, column 2: Expecting property name enclosed in double quotes.",
                "Each line must be one JSON object, or the whole file one list of objects.",
            ),
        ),
        ("data.jsonl", "", ("The data file {folder}/data.jsonl is empty", "Give a file with at least one row.")),
        (
            "data.jsonl", None,
            ("No data file at data.jsonl", "Nothing matches {folder}/data.jsonl.",
             "Check data_files in the configuration."),
        ),
    ],
    ids=["not JSON", "empty", "missing"],
)  # fmt: skip
def test_data_that_cannot_be_read_is_told(
    kerneltui: Command, tmp_path: Path, file: str, content: str | None, lines: tuple[str, ...]
) -> None:
    if content is not None:
        (tmp_path / file).write_text(content)
    plan(tmp_path / "c.yaml", datasets=[{"path": "json", "data_files": file}])
    expected = told(*(line.format(folder=tmp_path) for line in lines))
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (2, "", expected)
    assert not (tmp_path / "runs").exists()


SPACE_HINT = "Check permissions and free space, or choose another directory with --runs-dir."


def test_a_read_only_runs_directory_is_told(
    kerneltui: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the tests run as root no permission stops them; the error of a read-only disk is put in its place."""
    plan(tmp_path / "c.yaml")
    (tmp_path / "runs").mkdir()
    make = Path.mkdir

    def refuse(self: Path, *arguments: Any, **options: Any) -> None:
        if self.parent == tmp_path / "runs":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        make(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    expected = told(f"Cannot make a run directory in {tmp_path}/runs", "Read-only file system", SPACE_HINT)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs") == (1, "", expected)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_full_disk_is_told_and_nothing_half_made_stays(
    kerneltui: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plan(tmp_path / "c.yaml")
    monkeypatch.setattr("kerneltui.paths.os.fsync", full)
    written = tmp_path / "runs" / "mine" / "attempts" / "1" / "config.yaml"
    expected = told(f"Cannot write {written}", "No space left on device", SPACE_HINT)
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine") == (1, "", expected)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_name_that_is_taken_is_told(kerneltui: Command, tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    expected = told(f"There is already a run 'mine' in {tmp_path}/runs", "Give another name with --name.")
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine") == (2, "", expected)
    assert list((tmp_path / "runs" / "mine").iterdir()) == []


REVISION = "/api/kernels/kernels-community/flash-attn2/revision/v2"
NOT_FOUND = "it does not exist, is not a kernel repository, or is private."
NAME_HINT = "Check the name; for a private one log in with: hf auth login"
FAULTS: dict[str, tuple[dict[str, Any], bool, tuple[str, ...]]] = {
    "401": (
        {"status": 401}, True,
        ("There is no kernel repository kernels-community/flash-attn2", f"The Hub answers 401: {NOT_FOUND}", NAME_HINT),
    ),
    "401 for the token": (
        {"status": 401, "headers": {"X-Error-Message": "Invalid credentials in Authorization header"}}, True,
        ("The Hub does not accept the token", "Invalid credentials in Authorization header",
         "Log in again with: hf auth login"),
    ),
    "404": (
        {"status": 404}, True,
        ("There is no kernel repository kernels-community/flash-attn2", f"The Hub answers 404: {NOT_FOUND}", NAME_HINT),
    ),
    "404 for the revision": (
        {"status": 404, "headers": {"X-Error-Code": "RevisionNotFound"}}, True,
        ("kernels-community/flash-attn2 has no revision v2", "It is no branch, no tag and no full commit id there.",
         "List its branches with: kerneltui kernels kernels-community/flash-attn2"),
    ),
    "429": (
        {"status": 429, "headers": {"Retry-After": "7"}}, False,
        ("The Hub refuses more requests for now (429)",
         "{hub} had too many from this address or token. It says to wait 7 s.",
         "Wait, then try again; a login (hf auth login) has a higher limit than none."),
    ),
    "503": (
        {"status": 503}, False,
        ("The Hub has a failure of its own (503)", f"{{hub}} answered 503 twice for {REVISION}.",
         "Try again in a minute; https://status.huggingface.co tells of outages."),
    ),
    "garbage": (
        {"body": b"<html>Log in to the Wi-Fi</html>"}, False,
        ("{hub} does not answer as the Hub does", f"{REVISION}: JSON is malformed: invalid character (byte 0)",
         "Check HF_ENDPOINT; a proxy or a login page may answer in the Hub's place."),
    ),
    "cut off": (
        {"cut": True}, False,
        ("The Hub cannot be reached", "{hub}: the connection ended before the whole answer was there", NO_HUB_HINT),
    ),
    "refused": (
        {}, False, ("The Hub cannot be reached", f"{NOBODY}: [Errno 111] Connection refused", NO_HUB_HINT),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_hub_that_does_not_tell_about_the_kernel_blocks_a_launch_and_ends_kernels(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault, certain, lines = FAULTS[name]
    title, *rest = (line.format(hub=hub_of_asker.url) for line in lines)
    if fault:
        hub_of_asker.fail("/api/kernels", **fault)
    else:
        monkeypatch.setattr("kerneltui.facts.hub.Hub", lambda *_, **__: Hub(NOBODY))
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    finding = [
        f"✖ {title}", *(f"  {line}" for line in rest), *([] if certain else [f"  {UNTIL}"]),
        "  → Take built-in attention: attn_implementation: sdpa", f"  source: the Hub's answer about {FLASH}",
    ]  # fmt: skip
    assert kerneltui("launch", "sft", "c.yaml", "--runs-dir", "runs", "--json") == (1, "", blocked("\n".join(finding)))
    assert not (tmp_path / "runs").exists()
    assert kerneltui("kernels", FLASH, "--json") == (1, "", told(title, *rest))


def test_for_another_machine_a_hub_out_of_reach_only_warns(
    kerneltui: Command, hub_of_asker: LoopbackHub, tmp_path: Path
) -> None:
    (tmp_path / "server.json").write_bytes(to_json(SERVER))
    hub_of_asker.fail("/api/kernels", status=503)
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = kerneltui("check", "sft", "c.yaml", "--server", "server.json", "--json")
    assert (said.code, said.err) == (0, "")
    (finding,) = json.loads(said.out)["findings"]
    assert (finding["id"], finding["severity"]) == ("source.unavailable", "warn")
    assert finding["why"].endswith("Builds and branches were not asked for, so nothing is known of them.")


# The same once more with nothing replaced: the real probe, the real asker.


def test_the_real_command_refuses_a_plan_that_would_fail(tmp_path: Path) -> None:
    plan(tmp_path / "c.yaml", max_seq_length=512, attn_implementation="sdpa")
    said = real("launch", "sft", "c.yaml", "--runs-dir", "runs", "--name", "mine", cwd=tmp_path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(
        "✖ TRL's sft has no field max_seq_length\n"
        "  It is called max_length today. TRL hands what it does not know to accelerate launch, which refuses it.\n"
        "  → Write max_length instead of max_seq_length: max_length: 512; remove max_seq_length\n"
    )
    assert without_plan(said.err).endswith(blocked("✖ TRL's sft has no field max_seq_length").partition("\n\n")[2])
    assert "Traceback" not in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml"]


def test_the_real_command_says_that_the_hub_fails(tmp_path: Path, hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", status=503)
    plan(tmp_path / "c.yaml", attn_implementation=FLASH)
    said = real("check", "sft", "c.yaml", cwd=tmp_path, **hub.environment())
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith(
        f"✖ The Hub has a failure of its own (503)\n  {hub.url} answered 503 twice for {REVISION}."
    )
    assert "  commit" not in said.out
    assert not (tmp_path / "kerneltui-runs").exists()
