"""What is found out about a plan: with the real asker, the loopback Hub and servers from small recorded facts."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kerneltui import demo
from kerneltui.advice.situation import Situation
from kerneltui.assess import assess, find_out, with_attention
from kerneltui.errors import HubError, UsageError
from kerneltui.facts.hub import Hub
from kerneltui.facts.kernel_records import KernelRepo
from kerneltui.facts.server import Package, Server
from kerneltui.interpreter import Asker, find_interpreter
from kerneltui.plan.plan import Launch, Plan
from tests.advice.situations import A100, B200, COMMUNITY, H200, T4, make_server
from tests.hub import LoopbackHub

FLASH = f"{COMMUNITY}/flash-attn2"
V2 = "db6b51744f0cd7061386442c09df890fc6d9f47e"


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    with Asker(find_interpreter()) as asker:
        yield asker


def plan(trainer: str = "sft", *flags: str, gpus: tuple[int, ...] | None = None, **values: Any) -> Plan:
    """Return a plan for the demo's model and data with these settings."""
    data = {"path": "json", "data_files": str(demo.data_path(trainer))}
    config = {"model_name_or_path": str(demo.model_path()), "datasets": [data], "report_to": "none", **values}
    return Plan(trainer=trainer, cwd="/", config=yaml.safe_dump(config), flags=flags, launch=Launch(gpus=gpus))


class Find:
    """Finds out about plans with one asker and one Hub."""

    def __init__(self, asker: Asker, hub: LoopbackHub) -> None:
        self.asker, self.hub = asker, Hub(hub.url)

    def __call__(self, wanted: Plan, server: Server | None = None, **options: Any) -> Situation:
        return find_out(wanted, server or make_server(H200), self.asker, self.hub, **options)


@pytest.fixture
def find(asker: Asker, hub: LoopbackHub) -> Find:
    return Find(asker, hub)


def ids(situation: Situation) -> dict[str, str]:
    """Return the severity of each finding by its id."""
    return {finding.id: finding.severity for finding in assess(situation).findings}


def blocked(situation: Situation) -> set[str]:
    return {name for name, severity in ids(situation).items() if severity == "block"}


# The environment of the file


def test_a_kernel_of_the_files_environment_is_the_one_that_is_judged(find: Find, hub: LoopbackHub) -> None:
    local = demo.local_kernels(None)
    named = plan(attn_implementation=demo.ATTENTION, env={"LOCAL_KERNELS": local})
    found = find(named, make_server())
    assert found.build
    assert (found.build.source, found.build.variant) == ("local", "torch-cpu")
    assert "LOCAL_KERNELS" not in found.server.environment  # the server is what it is without the plan
    assert found.environment["LOCAL_KERNELS"] == local
    assert not hub.requests


def test_the_gpus_of_the_files_environment_are_those_that_are_judged(find: Find) -> None:
    mixed = make_server(T4, A100)
    flash = plan(attn_implementation=f"{FLASH}@v2", env={"CUDA_VISIBLE_DEVICES": 1})
    found = find(flash, mixed)
    assert [gpu.name for gpu in found.gpus] == [A100[0]]
    assert found.processes == 1
    assert "dtype.bf16" not in ids(found)
    assert "dtype.bf16" in ids(find(plan(env={"CUDA_VISIBLE_DEVICES": "0"}), mixed))


@pytest.mark.parametrize("variables", [["A=b"], None, {1: "x"}, {"": "x"}, {"A=B": "x"}, {"A": "\0"}])
def test_an_environment_that_trl_could_not_set_is_told(find: Find, variables: Any) -> None:
    with pytest.raises(UsageError) as raised:
        find(plan(env=variables))
    assert raised.value.message.startswith("`env` in the configuration file")


# How many processes will train

GRPO = {"per_device_train_batch_size": 1, "num_generations": 8, "reward_funcs": ["think_format_reward"]}


@pytest.mark.parametrize(
    ("flags", "gpus", "more", "processes"),
    [
        ((), None, {}, 8),
        ((), tuple(range(8)), {}, 8),
        ((), (0, 3), {}, 2),
        ((), None, {"accelerate_config": "zero3"}, 8),
        ((), None, {"num_processes": 1}, 1),
        ((), tuple(range(8)), {"num_processes": 1}, 1),
        (("--num_processes", "4"), None, {"num_processes": 1}, 4),
        ((), None, {"env": {"CUDA_VISIBLE_DEVICES": "0,1"}}, 2),
    ],
)
def test_a_generation_batch_is_judged_for_the_processes_that_will_run(
    find: Find, flags: tuple[str, ...], gpus: tuple[int, ...] | None, more: dict[str, Any], processes: int
) -> None:
    found = find(plan("grpo", *flags, gpus=gpus, **GRPO, **more), make_server(*[H200] * 8))
    assert found.processes == processes
    alone = {"launching.data_parallel"} if processes == 1 else set()
    assert blocked(found) - alone == (set() if processes == 8 else {"configuration.generation_batch_size"})
    assert alone <= blocked(found)


def test_a_server_without_gpus_has_one_process(find: Find) -> None:
    assert find(plan(use_cpu=True, bf16=False), make_server()).processes == 1


# A server that is another machine


def recorded(**packages: str) -> Server:
    """Return the report of an H200 whose packages are those of this interpreter, but for the changes."""
    here = {name: importlib.metadata.version(name) for name in ("trl", "transformers", "kernels")}
    server = make_server(H200)
    versions = {**server.packages, **{name: Package(version=it) for name, it in {**here, **packages}.items()}}
    return msgspec.structs.replace(server, packages=versions)


def test_packages_that_a_build_needs_are_looked_for_in_the_report(find: Find) -> None:
    flash4 = plan(attn_implementation=f"{COMMUNITY}/flash-attn4@v0")
    without = find(flash4, recorded(), elsewhere=True)
    assert without.build and without.build.metadata
    assert set(without.build.metadata.missing_depends) == {"einops", "apache-tvm-ffi", "nvidia-cutlass-dsl"}
    packages = {"einops": "0.8", "apache-tvm-ffi": "0.1.7", "nvidia-cutlass-dsl": "4.2"}
    complete = find(flash4, recorded(**packages), elsewhere=True)
    assert complete.build and complete.build.metadata
    assert complete.build.metadata.missing_depends == ()


def test_versions_that_differ_are_told_once_and_cited(find: Find) -> None:
    assert find(plan(), recorded(), elsewhere=True).differing == {}
    found = find(plan(per_device_train_batch_size=2, max_seq_len=3), recorded(trl="1.10.0"), elsewhere=True)
    here = importlib.metadata.version("trl")
    assert found.differing == {"trl": ("1.10.0", here)}
    findings = {finding.id: finding for finding in assess(found).findings}
    assert findings["elsewhere.versions"].severity == "warn"
    assert findings["elsewhere.versions"].title.endswith(f"trl 1.10.0 there and {here} here")
    assert f"trl {here} read the configuration; what 1.10.0 says" in findings["elsewhere.versions"].why
    assert found.cite_answer("trl", "x") == f"trl {here} (of this machine): x"
    assert found.cite("trl", "x") == "trl 1.10.0: x"
    assert find(plan(), recorded(trl="1.10.0")).differing == {}


def test_folders_of_another_machine_are_not_read_here(find: Find, hub: LoopbackHub) -> None:
    server = msgspec.structs.replace(recorded(), environment={"LOCAL_KERNELS": demo.local_kernels(None)})
    found = find(plan(attn_implementation=demo.ATTENTION), server, elsewhere=True)
    assert found.build is None
    assert ids(found)["elsewhere.local_kernel"] == "note"
    assert not hub.requests
    missing = {"path": "json", "data_files": "/data/of/the/server.jsonl"}
    other = find(plan(model_name_or_path="/models/of/the/server", datasets=[missing]), server, elsewhere=True)
    assert ids(other) == {"trainer.model": "warn", "data.unread": "note"}
    with pytest.raises(UsageError):
        find(plan(model_name_or_path="/models/of/the/server"), server)


# What the Hub says beside


def test_a_failure_about_the_publisher_leaves_the_build(find: Find, hub: LoopbackHub) -> None:
    hub.fail("/api/organizations", status=503)
    found = find(plan(attn_implementation=f"{FLASH}@v2"))
    assert found.build
    assert (found.build.commit, found.trusted, found.build_error) == (V2, None, None)
    assert ids(found)["source.trust_not_asked"] == "note"
    assert assess(found).will_run.attention.commit == V2


def test_other_revisions_are_judged_for_the_chosen_gpus(find: Find) -> None:
    """vllm-flash-attn3@v1 is built for 8.0 and 9.0a: it suits the H200, and not the B200 beside it."""
    mixed = make_server(B200, H200)
    asked = plan(attn_implementation=f"{COMMUNITY}/vllm-flash-attn3@main", gpus=(1,))
    found = find(asked, mixed)
    assert found.alternatives
    assert [build.metadata.arch_error for build in found.alternatives if build.metadata] == [None]
    everywhere = find(msgspec.structs.replace(asked, launch=Launch()), mixed)
    assert everywhere.alternatives
    assert [bool(build.metadata.arch_error) for build in everywhere.alternatives if build.metadata] == [True]


def test_a_revision_that_is_not_there_is_replaced_by_one_that_is(find: Find) -> None:
    found = find(plan(attn_implementation=f"{FLASH}@v9"))
    assert found.build_error and found.build_error[0] == "no_revision"
    (finding,) = (it for it in assess(found).findings if it.id == "source.no_revision")
    assert f"{FLASH}@v3" in [fix.changes.get("attn_implementation") for fix in finding.fixes]


@pytest.mark.parametrize("name", [f"{COMMUNITY}/flash-atn2", "kernel-community/flash-attn2"])
def test_a_kernel_that_is_not_there_gets_the_nearest_name(
    find: Find, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find(plan(attn_implementation=name))
    assert found.similar == FLASH
    (finding,) = (it for it in assess(found).findings if it.id == "source.not_found")
    assert finding.fixes[0].changes == {"attn_implementation": FLASH}

    def refuse(*_: str) -> list[KernelRepo]:
        raise HubError("unavailable", "The Hub has a failure of its own (503)")

    monkeypatch.setattr(find.hub, "list_kernels", refuse)
    assert find(plan(attn_implementation=name)).similar is None


# Another attention in the place of the one that is asked for


def test_another_attention_is_resolved_and_its_kernel_asked_about(find: Find) -> None:
    found = find(plan(attn_implementation=f"{FLASH}@v2", model_init_kwargs={"use_cache": False}))
    other = with_attention(found, f"{COMMUNITY}/vllm-flash-attn3@v1", find.asker, find.hub)
    assert (other.attention.repository, other.attention.revision) == (f"{COMMUNITY}/vllm-flash-attn3", "v1")
    assert other.build and other.build.repository == f"{COMMUNITY}/vllm-flash-attn3"
    assert other.settings.attention == f"{COMMUNITY}/vllm-flash-attn3@v1"
    assert other.settings.model_kwargs == {"use_cache": False}
    assert other.plan == found.plan
    native = with_attention(other, "sdpa", find.asker, find.hub)
    assert (native.attention.kind, native.build, native.trusted) == ("builtin", None, None)
    assert with_attention(native, f"{FLASH}@v2", find.asker, find.hub) == found


def test_another_attention_takes_the_place_that_decides(find: Find) -> None:
    found = find(plan(model_init_kwargs={"attn_implementation": "eager"}))
    other = with_attention(found, "sdpa", find.asker, find.hub)
    assert other.settings.attention == "sdpa"


def test_what_was_not_asked_of_one_attention_says_nothing_of_another(find: Find, hub: LoopbackHub) -> None:
    hub.fail("/api/organizations", status=503)
    found = find(plan(attn_implementation=f"{FLASH}@v2"))
    hub.heal()
    again = with_attention(found, f"{FLASH}@v3", find.asker, find.hub)
    assert (again.trusted, again.unknown) == (True, {})


def test_a_secret_is_told_and_does_not_reach_a_finding(find: Find, tmp_path: Path) -> None:
    found = find(plan("sft", "--hub_token", "hf_secretsecret", env={"WANDB_API_KEY": "abcdef", "A": "b"}))
    told = assess(found)
    assert {finding.id: finding.severity for finding in told.findings} == {
        "secrets.hub_token": "warn",
        "secrets.WANDB_API_KEY": "warn",
    }
    text = msgspec.json.encode(told).decode()
    assert "secretsecret" not in text
    assert "abcdef" not in text


# The data


def test_rows_that_the_trainer_cannot_read_block_before_any_model_is_loaded(find: Find) -> None:
    pairs = {"path": "json", "data_files": str(demo.data_path("dpo"))}
    assert "data.format" in blocked(find(plan("sft", datasets=[pairs]), make_server()))
    assert "data.format" not in ids(find(plan("dpo"), make_server()))
    assert find(plan("sft", datasets=[pairs]), make_server(), data=False).data is None


def test_data_that_cannot_be_looked_at_is_warned_about_with_the_reason(find: Find) -> None:
    found = find(plan(datasets=[{"path": "nobody/nothing"}]), make_server())
    assert (found.data, ids(found)["data.unread"]) == (None, "warn")
    assert "the Hub cannot be reached" in found.unknown["data"]


def test_the_trainers_own_constructor_is_asked(find: Find) -> None:
    adapter: dict[str, Any] = {"use_peft": True, "lora_target_modules": ["q_proj"]}
    fine = find(plan(**adapter)).construction
    assert fine is not None
    assert fine.refused is None
    head = find(plan(**{**adapter, "lora_target_modules": ["lm_head"]})).construction
    assert head is not None
    assert head.refused is not None
    assert "lm_head" in head.refused.message
    tracked = find(plan(report_to="tensorboard"))
    assert tracked.construction is not None
    assert ("configuration.report_to" in ids(tracked)) == bool(tracked.construction.missing)


def test_another_release_of_trl_is_not_asked_here(find: Find) -> None:
    there = make_server(H200, trl="1.10.0")
    situation = find(plan("kto", per_device_train_batch_size=1), there, elsewhere=True)
    assert situation.construction is None
    found = ids(situation)
    assert found["configuration.not_asked"] == "note"
    assert found["limits.kto_batch"] == "block"
