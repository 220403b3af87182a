"""Situations from small recorded facts: servers, models and kernel builds as the probe, transformers and the Hub told.

The answers of the libraries are those of transformers 5.22.2 and 5.14.1, kernels 0.17.2 and TRL 1.16.0 and 1.10.0;
commits and variants are those of tests/hub/kernels_community.json. GPUs that nobody had at hand are written after
their data sheets.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kerneltui.advice.finding import Finding
from kerneltui.advice.rules import judge
from kerneltui.advice.situation import Situation
from kerneltui.facts.attention import AttentionChoice, resolve_attention
from kerneltui.facts.kernel_records import KernelBuild, KernelMetadata, VariantDecision
from kerneltui.facts.model import ModelFacts
from kerneltui.facts.packages import kernels_usable
from kerneltui.facts.server import Gpu, Libraries, Package, Server, Torch
from kerneltui.plan.plan import Launch, Plan
from kerneltui.plan.settings import ConfigError, Settings

H200, B200 = ("NVIDIA H200", (9, 0)), ("NVIDIA B200", (10, 0))
T4, V100, A100 = ("Tesla T4", (7, 5)), ("Tesla V100-SXM2-16GB", (7, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0))

COMMUNITY = "kernels-community"
V2_COMMIT = "db6b51744f0cd7061386442c09df890fc6d9f47e"
V3_OLD = "239bb21bd566f598d7e2228eab9788b0a9239b2d"
V3_FIXED = "0510be1e482269a46fadf30069aca3ede496ff9b"
OTHER_COMMIT = "81fb77c12b2ad5d69380669b46739d5868614502"

_ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
_FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
_NAMES = ("eager", *_FLASH, "flex_attention", "paged|eager", "sdpa")
_FALLBACKS = {
    "flash_attention_2": f"{COMMUNITY}/flash-attn2",
    "flash_attention_3": f"{COMMUNITY}/vllm-flash-attn3",
    "flash_attention_4": f"{COMMUNITY}/flash-attn4",
}
_DEVICES = {
    f"{COMMUNITY}/flash-attn2": ("cuda", "xpu"),
    f"{COMMUNITY}/vllm-flash-attn3": ("cuda",),
    f"{COMMUNITY}/flash-attn4": ("cuda",),
    f"{COMMUNITY}/metal-flash-sdpa": ("mps",),
    f"{COMMUNITY}/aiter-flash-attn": ("rocm",),
}
_RANGES = {"5.22.2": ("0.17.2", "0.18.0"), "5.24.0": ("0.18.2", "0.19.0"), "5.14.1": ("0.15.2", "0.16.0")}

GQA = ModelFacts(
    model_type="qwen2", architectures=("Qwen2ForCausalLM",), layers=24, hidden_size=896, heads=14, kv_heads=2,
    head_dims=(64,), vocabulary=151936, dtype="bfloat16", supports_flash=True, supports_sdpa=True, supports_flex=True,
)  # fmt: skip
MHA = msgspec.structs.replace(GQA, heads=16, kv_heads=16, hidden_size=1024)
GEMMA2 = msgspec.structs.replace(
    GQA, model_type="gemma2", architectures=("Gemma2ForCausalLM",), heads=8, kv_heads=4, head_dims=(256,),
    softcap=50.0, supports_sdpa=False,
)  # fmt: skip
GPT_OSS = msgspec.structs.replace(
    GQA, model_type="gpt_oss", architectures=("GptOssForCausalLM",), heads=64, kv_heads=8, supports_sdpa=False,
    compatible_flash=(
        f"{COMMUNITY}/vllm-flash-attn3", "flash_attention_4", f"{COMMUNITY}/metal-flash-sdpa",
        f"{COMMUNITY}/aiter-flash-attn",
    ),
)  # fmt: skip
BLOOM = msgspec.structs.replace(
    MHA, model_type="bloom", architectures=("BloomForCausalLM",), supports_flash=False, supports_sdpa=False,
    supports_flex=False,
)  # fmt: skip

# What TRL 1.16.0's parser gives for the fields that rules look at.
_COMMON: dict[str, Any] = {
    "model_name_or_path": "Qwen/Qwen2.5-0.5B", "model_revision": "main", "dtype": "float32",
    "attn_implementation": None, "model_init_kwargs": None, "dataset_name": "trl-lib/Capybara", "datasets": [],
    "bf16": None, "fp16": False, "use_cpu": False, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8,
    "gradient_accumulation_steps": 1, "eval_strategy": "no", "use_liger_kernel": False, "liger_kernel_config": None,
    "warmup_steps": 0, "learning_rate": 2e-5, "load_in_4bit": False, "load_in_8bit": False, "report_to": "none",
    "use_peft": False, "lora_target_modules": None, "lora_task_type": "CAUSAL_LM", "gradient_checkpointing": True,
    "dataloader_pin_memory": True, "num_train_epochs": 3.0, "logging_steps": 10, "save_steps": 500,
    "save_total_limit": None,
}  # fmt: skip
_SFT = {
    "max_length": 1024,
    "chat_template_path": None,
    "dataset_text_field": "text",
    "packing": False,
    "packing_strategy": "bfd",
    "padding_free": False,
    "eval_packing": None,
}
_ONLINE = {
    "num_generations": 8, "num_generations_eval": None, "generation_batch_size": None, "steps_per_generation": None,
    "reward_funcs": ["accuracy_reward"], "reward_model_name_or_path": None,
}  # fmt: skip
_EXPERIMENTAL = (
    *("a2po", "async_distillation", "async_grpo", "cpo", "gkd", "gmpo", "gold", "iw_opd", "online_dpo", "orpo"),
    *("sdft", "sdpo", "server_distillation", "tpo"),
)
_OWN: dict[str, dict[str, Any]] = {
    "sft": _SFT,
    "dpo": {"max_length": 1024, "padding_free": False},
    "grpo": _ONLINE,
    "rloo": {**_ONLINE, "num_generations": 2},
    "reward": {"max_length": 1024, "chat_template_path": None},
    "kto": {"max_length": 1024},
    "distillation": {"teacher_model_name_or_path": "Qwen/Qwen2.5-1.5B"},
    "gkd": {"teacher_model_name_or_path": None, "max_length": 1024},
    "a2po": {"reward_funcs": None, "reward_model_name_or_path": None},
    "online_dpo": {"reward_funcs": None, "reward_model_name_or_path": None, "use_vllm": False},
    "async_grpo": {
        "reward_funcs": ["accuracy_reward"],
        "reward_model_name_or_path": None,
        "vllm_server_base_url": "http://localhost:8000",
    },
    "async_distillation": {
        "vllm_server_base_url": "http://localhost:8000",
        "teacher_server_urls": {"default": "http://localhost:8001"},
    },
}


def make_server(
    *cards: tuple[str, tuple[int, int]],
    torch: str = "2.11.0",
    cuda: str | None = "13.0",
    transformers: str = "5.22.2",
    trl: str = "1.16.0",
    kernels: str | None = "0.17.2",
    flash: tuple[str, ...] = (),
    archs: tuple[str, ...] = _ARCHS,
    **changes: Any,
) -> Server:
    """Return a server with these cards; without any it has no GPU and a torch for the CPU."""
    cuda = cuda if cards else None
    versions = {"torch": torch, "transformers": transformers, "trl": trl, "kernels": kernels, "liger-kernel": "0.8.5"}
    versions |= {"accelerate": "1.15.0", "datasets": "5.0.0"}
    server = Server(
        time="2026-12-01T09:00:00.000+00:00",
        hostname="gpu-server",
        system="Linux",
        machine="x86_64",
        python="3.11.7",
        interpreter="/opt/train/bin/python",
        driver="580.95.05" if cards else None,
        driver_cuda="13.0" if cards else None,
        gpus=tuple(Gpu(index=n, name=name, capability=capability) for n, (name, capability) in enumerate(cards)),
        torch=Torch(
            version=f"{torch}+cu{cuda.replace('.', '')}" if cuda else f"{torch}+cpu",
            cuda=cuda,
            cxx11_abi=True,
            arch_list=archs if cards else (),
            device_count=len(cards),
        ),
        packages={name: Package(version=version) for name, version in versions.items() if version},
        libraries=make_libraries(torch, transformers, flash),
    )
    return msgspec.structs.replace(server, **changes)


def make_libraries(torch: str = "2.11.0", transformers: str = "5.22.2", flash: tuple[str, ...] = ()) -> Libraries:
    """Return the tables of a transformers release; `flash` are the native names whose own package is installed."""
    low, high = _RANGES[transformers]
    minor = int(torch.split(".")[1])
    return Libraries(
        kernels_minimum=low,
        kernels_maximum=high,
        attention_versions={
            f"{COMMUNITY}/flash-attn2": 4 if minor >= 10 else 3,
            f"{COMMUNITY}/flash-attn4": 0,
            f"{COMMUNITY}/aiter-flash-attn": 2,
        },
        attention_fallbacks=_FALLBACKS,
        attention_devices=_DEVICES,
        flash_packages={name: name in flash for name in _FLASH},
        attention_names=_NAMES,
        trainers=("distillation", "dpo", "grpo", "kto", "reward", "rloo", "sft"),
        experimental=_EXPERIMENTAL,
    )


def make_build(
    revision: str = "v2",
    variant: str | None = "torch211-cxx11-cu130-x86_64-linux",
    *,
    repository: str = f"{COMMUNITY}/flash-attn2",
    commit: str = V2_COMMIT,
    archs: tuple[str, ...] = ("8.0", "9.0", "10.0", "12.0"),
    refused: dict[str, str] | None = None,
    source: str = "hub",
    **metadata: Any,
) -> KernelBuild:
    """Return a judged revision; `refused` are variants with kernels' reasons."""
    accepted = (VariantDecision(variant=variant),) if variant else ()
    return KernelBuild(
        repository=repository,
        revision=revision,
        commit=commit,
        decisions=(*accepted, *(VariantDecision(variant=name, reason=why) for name, why in (refused or {}).items())),
        variant=variant,
        metadata=KernelMetadata(backend="cuda", archs=archs, **metadata) if variant else None,
        source=source,
    )


def make_situation(
    trainer: str = "sft",
    *,
    server: Server | None = None,
    model: ModelFacts | None = GQA,
    given: dict[str, Any] | None = None,
    unknown_keys: tuple[str, ...] = (),
    errors: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    gpus: tuple[int, ...] | None = None,
    launch_arguments: tuple[str, ...] = (),
    accelerate: dict[str, Any] | None = None,
    processes: int = 1,
    machines: int = 1,
    **facts: Any,
) -> Situation:
    """Return the situation of a configuration that holds `given`, resolved as `kerneltui check` does it."""
    server = server or make_server(H200)
    given = given or {}
    settings = Settings(
        values={**_COMMON, **_OWN.get(trainer, {}), **{k: v for k, v in given.items() if k not in unknown_keys}},
        config_class=trainer.upper(),
        given=tuple(sorted(name for name in given if name not in unknown_keys)),
        unknown=unknown_keys,
        errors=tuple(ConfigError(type="ValueError", message=message) for message in errors),
        launch_arguments=launch_arguments,
        accelerate=accelerate or {},
        processes=processes,
        machines=machines,
    )
    choice = (
        resolve_attention(settings.attention, server.libraries, model, kernels_usable(server))
        if server.libraries
        else AttentionChoice(asked=settings.attention, implementation=settings.attention or "sdpa", kind="unknown")
    )
    plan = Plan(
        trainer=trainer, cwd="/work", config=yaml.safe_dump(given) if given else None, flags=flags,
        launch=Launch(gpus=gpus),
    )  # fmt: skip
    facts.setdefault("attention", choice)
    return Situation(plan=plan, settings=settings, server=server, model=model, **facts)


def findings(trainer: str = "sft", **facts: Any) -> dict[str, Finding]:
    """Return the findings on `make_situation(...)` by their id."""
    return {finding.id: finding for finding in judge(make_situation(trainer, **facts))}


def blocks(trainer: str = "sft", **facts: Any) -> set[str]:
    """Return the ids of what blocks."""
    return {name for name, finding in findings(trainer, **facts).items() if finding.severity == "block"}


def changes(finding: Finding) -> list[dict[str, Any]]:
    """Return what each fix of a finding changes; a field set to null is None."""
    return [{**fix.changes, **dict.fromkeys(fix.nulls)} for fix in finding.fixes]
