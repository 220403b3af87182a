"""A plan in other forms: the `trl` command, its configuration file, a Python script."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import yaml

from kerneltui.plan.plan import Plan
from kerneltui.plan.settings import Settings

FORMS = ("shell", "yaml", "python")

# Fields that the `trl` scripts hand to `from_pretrained`, under its argument names (trl.scripts.sft.main, TRL 1.16.0).
_MODEL_ARGUMENTS = {
    "model_revision": "revision",
    "attn_implementation": "attn_implementation",
    "dtype": "dtype",
}
_REWARDS = ("grpo", "rloo")


def as_shell(plan: Plan) -> str:
    """Return the `trl` command of the plan; the environment that it needs stands before it."""
    environment = dict(plan.launch.environment)
    if plan.launch.gpus is not None:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, plan.launch.gpus))
    words = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    config = ["--config", str(Path(plan.cwd, plan.config_path).absolute())] if plan.config_path else []
    words.append(shlex.join(["trl", plan.trainer, *config, *plan.flags]))
    return " ".join(words) + "\n"


def as_yaml(plan: Plan, settings: Settings) -> str:
    """Return the configuration file: as it was given where no flags change it, else all settings that were given."""
    if plan.config is not None and not plan.flags:
        return plan.config
    values = {**settings.accelerate, **{name: settings.values[name] for name in settings.given}}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def as_python(plan: Plan, settings: Settings) -> str:
    """Return a script that trains the same with TRL's classes, with the model loaded by `from_pretrained`."""
    config_class = settings.config_class
    trainer_class = config_class.removesuffix("Config") + "Trainer"
    model_class = "AutoModelForSequenceClassification" if plan.trainer == "reward" else "AutoModelForCausalLM"
    given = {name: settings.values[name] for name in settings.given}
    config = {name: value for name, value in given.items() if settings.owners.get(name) == config_class}
    model = {
        argument: given.get(name, settings.values.get(name))
        for name, argument in _MODEL_ARGUMENTS.items()
        if given.get(name, settings.values.get(name)) is not None
    }
    model |= config.pop("model_init_kwargs", None) or {}
    if plan.trainer == "reward":
        model["num_labels"] = 1
    adapters = {name: value for name, value in given.items() if name.startswith(("lora_", "use_rslora", "use_dora"))}
    names = [
        config_class,
        trainer_class,
        *(["ModelConfig", "get_peft_config"] if given.get("use_peft") else []),
    ]
    arguments = ["model=model", f"args={config_class}({_keywords(config)})", "train_dataset=dataset"]
    if plan.trainer in _REWARDS:
        arguments.append(f"reward_funcs={_reward_functions(given)}")
    if given.get("use_peft"):
        arguments.append(f"peft_config=get_peft_config(ModelConfig(use_peft=True, {_keywords(adapters)}))")
    if plan.trainer == "distillation":
        arguments.append(f"teacher_model={given.get('teacher_model_name_or_path')!r}")
    return "\n".join(
        [
            "from datasets import load_dataset",
            f"from transformers import {model_class}",
            f"from trl import {', '.join(names)}",
            *([f"from trl.rewards import {', '.join(_trl_rewards(given))}"] if _trl_rewards(given) else []),
            "",
            f"model = {model_class}.from_pretrained({settings.get('model_name_or_path')!r}, {_keywords(model)})",
            f"dataset = {_dataset(settings)}",
            f"trainer = {trainer_class}({', '.join(arguments)})",
            f"trainer.train(resume_from_checkpoint={settings.get('resume_from_checkpoint')!r})",
            "trainer.save_model()",
            "",
        ]
    )


def _keywords(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _dataset(settings: Settings) -> str:
    mixture = settings.get("datasets")
    if mixture:
        parts = [f"load_dataset({_keywords({'split': 'train', **entry})})" for entry in mixture]
        return parts[0] if len(parts) == 1 else f"__import__('datasets').concatenate_datasets([{', '.join(parts)}])"
    extra = {"name": settings.get("dataset_config")} if settings.get("dataset_config") else {}
    extra["split"] = settings.get("dataset_train_split", "train")
    return f"load_dataset({settings.get('dataset_name')!r}, {_keywords(extra)})"


def _trl_rewards(given: dict[str, Any]) -> list[str]:
    return [name for name in given.get("reward_funcs") or [] if "." not in name]


def _reward_functions(given: dict[str, Any]) -> str:
    named = list(_trl_rewards(given))
    model = given.get("reward_model_name_or_path")
    return f"[{', '.join([*named, *([repr(model)] if model else [])])}]"
