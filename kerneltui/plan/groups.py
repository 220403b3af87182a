"""The fields that matter, in groups and in plain words; every other field of TRL is still there to be searched.

Only names stand here. What a field takes and what its default is, the installed TRL says (`kerneltui.plan.fields`); a
name that it does not have is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from kerneltui.plan.fields import Field
from kerneltui.records import Record


class Entry(Record):
    """A field in a group: its name, what a person would call it, and one line of help."""

    name: str
    label: str
    help: str


class Group(Record):
    """Fields that are decided together."""

    title: str
    help: str
    entries: tuple[Entry, ...]


def _group(title: str, help_text: str, **entries: tuple[str, str]) -> Group:
    found = tuple(Entry(name=name, label=label, help=text) for name, (label, text) in entries.items())
    return Group(title=title, help=help_text, entries=found)


_BATCH = _group(
    "Batch and length",
    "How much data one step holds: most of the memory is decided here.",
    max_length=("longest sample", "in tokens; what is longer is cut. Memory grows with it"),
    per_device_train_batch_size=("samples a GPU", "that are computed at once; lower it first when memory runs out"),
    gradient_accumulation_steps=(
        "passes a step",
        "collected before the weights change: a larger batch, no more memory",
    ),
    num_train_epochs=("epochs", "times through the data, unless the number of steps is set"),
    max_steps=("steps", "optimizer steps in all; -1 lets the epochs decide"),
    truncation_mode=("cut at", "which end of a sample stays when it is too long"),
    pad_to_multiple_of=("pad to multiples", "of so many tokens; auto picks what the GPU likes"),
)
_LEARNING = _group(
    "Learning",
    "How fast and how far the weights move.",
    learning_rate=("learning rate", "the size of a step; about ten times higher with LoRA"),
    lr_scheduler_type=("schedule", "how the learning rate falls over the run"),
    warmup_steps=("warmup", "steps in which the rate rises from zero; below 1 it is a share of the run"),
    weight_decay=("weight decay", "pulls weights towards zero; 0 is off"),
    max_grad_norm=("gradient limit", "longer gradients are shortened to this; 0 is off"),
    optim=("optimizer", "the 8-bit ones save memory and need bitsandbytes"),
    neftune_noise_alpha=("embedding noise", "NEFTune: noise that may help small chat data; null is off"),
    seed=("seed", "the same seed, data and machine give nearly the same run"),
)
_PRECISION = _group(
    "Precision and memory",
    "The numbers that are computed with, and what is traded for memory.",
    dtype=("weights", "the dtype that weights are loaded in: bfloat16 takes half the memory of TRL's float32"),
    bf16=("compute in bf16", "TRL turns it on by itself unless fp16 is; needs Ampere or newer"),
    fp16=("compute in fp16", "for GPUs before Ampere, which have no bfloat16"),
    tf32=("TF32", "faster float32 products on Ampere and newer, a little less exact"),
    gradient_checkpointing=("recompute activations", "a fifth to a third slower, for much less memory"),
    activation_offloading=("offload activations", "keeps them in the memory of the host instead: slower, needs a GPU"),
    load_in_4bit=("4-bit base", "QLoRA: the frozen weights take a quarter; needs LoRA and bitsandbytes"),
    load_in_8bit=("8-bit base", "the frozen weights take half; needs LoRA and bitsandbytes"),
    use_cpu=("train on the CPU", "for a trial of a small model where there is no GPU"),
)
_LORA = _group(
    "LoRA",
    "Train small added matrices and leave the model's own weights as they are.",
    use_peft=("LoRA", "much less memory, and a result of some megabytes"),
    lora_r=("rank", "the size of the matrices; 8 to 64 is usual"),
    lora_alpha=("alpha", "how strongly they count; often twice the rank"),
    lora_dropout=("dropout", "share of their inputs that is left out while training"),
    lora_target_modules=("target layers", "names of layers that get matrices; all-linear takes every one"),
    lora_modules_to_save=("also train", "layers that are trained whole and saved with the result"),
    use_rslora=("rank-stabilized", "divides alpha by the root of the rank, for high ranks"),
    use_dora=("DoRA", "also learns the length of each weight: a little better, slower"),
)
_KERNELS = _group(
    "Layer kernels",
    "Faster code for the layers around attention.",
    use_liger_kernel=("Liger kernels", "fused layers in Triton, for the models that Liger knows; needs a GPU"),
    liger_kernel_config=("which of Liger's", "a mapping such as {rope: false}"),
    torch_compile=("torch.compile", "compiles the model first: minutes at the start, faster steps"),
    model_init_kwargs=(
        "loading options",
        "further arguments of from_pretrained; use_kernels: true takes the Hub's layers",
    ),
)
_PACKING = _group(
    "Packing",
    "Fill rows with several samples instead of padding; attention keeps the samples apart.",
    packing=("packing", "fewer, fuller steps; best with a flash attention kernel"),
    packing_strategy=("strategy", "bfd keeps samples whole, bfd_split cuts the long ones, wrapped mixes documents"),
    padding_free=("no padding", "flattens a batch instead; packing turns it on by itself"),
    eval_packing=("pack evaluation", "null does as for training"),
)
_SAVING = _group(
    "Checkpoints and logging",
    "What is kept, and how often the run says something.",
    logging_steps=("log every", "steps, or below 1 a share of the run"),
    logging_first_step=("log the first step", "shows at once whether the loss is a number"),
    save_strategy=("save by", "steps, epochs, when it is best, or never"),
    save_steps=("save every", "steps, or below 1 a share of the run"),
    save_total_limit=("checkpoints kept", "older ones are deleted; null keeps all"),
    save_only_model=("weights only", "smaller checkpoints, from which a run cannot be resumed"),
    load_best_model_at_end=("best at the end", "loads the checkpoint with the best evaluation when it ends"),
    output_dir=("output folder", "where checkpoints and the model go; kerneltui gives each run its own"),
)
_TRACKERS = _group(
    "Trackers",
    "Where metrics go besides kerneltui's own record.",
    report_to=("report to", "none, or the names of installed trackers: trackio, wandb, tensorboard …"),
    run_name=("name there", "the run's name in the tracker"),
    project=("project", "the project in Trackio"),
    push_to_hub=("push to the Hub", "uploads what is saved; needs a login"),
    hub_model_id=("repository", "owner/name on the Hub; by default the name of the output folder"),
    hub_private_repo=("private", "null follows your organization's setting"),
)
_EVALUATION = _group(
    "Evaluation",
    "Measure on data that is not trained on.",
    eval_strategy=("evaluate by", "steps, epochs, or not at all"),
    eval_steps=("evaluate every", "steps; null does it as often as logging"),
    per_device_eval_batch_size=("samples a GPU", "that are evaluated at once"),
    dataset_test_split=("split", "of a data set that is named by dataset_name"),
    test_split_size=("hold out", "a share or number of rows, for data that is listed under datasets"),
    eval_on_start=("before the first step", "evaluates once before training"),
)
_SFT = _group(
    "What is learned",
    "Which tokens count, and which text is read.",
    assistant_only_loss=("answers only", "in a conversation only what the assistant says counts"),
    completion_only_loss=("completions only", "null: only the completion counts where there is a prompt"),
    dataset_text_field=("text column", "the column of plain text"),
    chat_template_path=("chat template", "a .jinja file, or a model whose template to take"),
    eos_token=("end token", "the token that ends a turn; null takes the tokenizer's"),
    loss_type=("loss", "nll is the usual one, dft weighs tokens by how likely they are"),
    shuffle_dataset=("shuffle first", "before packing and training"),
    router_aux_loss_coef=("router loss", "for mixtures of experts: how strongly experts are balanced"),
)
_DPO = _group(
    "Preference",
    "How strongly the chosen answer is preferred, and what the model is held to.",
    beta=("beta", "how close the model stays to the reference; higher is closer"),
    loss_type=("loss", "sigmoid is DPO itself; several are added up"),
    loss_weights=("loss weights", "one a loss, where there are several"),
    label_smoothing=("label smoothing", "the share of preferences that may be wrong (robust and exo losses)"),
    f_divergence_type=("divergence", "how the distance from the reference is measured"),
    f_alpha_divergence_coef=("its alpha", "for alpha_divergence only"),
    ld_alpha=("length weight", "LD-DPO: counts the surplus of the longer answer less; null is off"),
    use_weighting=("WPO weights", "weighs pairs by how likely the model finds them"),
    discopop_tau=("DiscoPOP tau", "for the discopop loss only"),
    precompute_ref_log_probs=("reference first", "computes the reference once before training, which frees its memory"),
    precompute_ref_batch_size=("its batch", "samples a GPU while that is done"),
    sync_ref_model=("moving reference", "TR-DPO: the reference follows the model"),
    ref_model_mixup_alpha=("how far", "share of the model that goes into the reference"),
    ref_model_sync_steps=("how often", "steps between"),
    disable_dropout=("no dropout", "makes both models comparable"),
    router_aux_loss_coef=("router loss", "for mixtures of experts: how strongly experts are balanced"),
)
_ONLINE = _group(
    "Generation and rewards",
    "What is generated while training, and how it is scored.",
    reward_funcs=("reward functions", "TRL's by name, or your own as package.module.function"),
    reward_model_name_or_path=("reward model", "a model that scores, instead or besides"),
    reward_weights=("reward weights", "one a reward"),
    teacher_model_name_or_path=("teacher", "the model to learn from"),
    num_generations=("answers a prompt", "that are compared; the batch of a step must be a multiple"),
    max_completion_length=("longest answer", "in tokens"),
    temperature=("temperature", "how varied the answers are"),
    beta=("beta", "how close the model stays to the reference; for distillation, which divergence"),
    loss_type=("loss", "the form of the objective"),
    use_vllm=("vLLM", "generates with vLLM: much faster, needs the package"),
    log_completions=("log answers", "writes samples of prompts and answers"),
)

_OWN = "What this trainer adds"
_COMMON = (_BATCH, _LEARNING, _PRECISION, _LORA, _KERNELS)
_LAST = (_SAVING, _TRACKERS, _EVALUATION)

GROUPS: dict[str, tuple[Group, ...]] = {
    "sft": (_BATCH, _PACKING, _SFT, _LEARNING, _PRECISION, _LORA, _KERNELS, *_LAST),
    "dpo": (_BATCH, _DPO, _LEARNING, _PRECISION, _LORA, _KERNELS, *_LAST),
}
"""The groups of the trainers whose options are complete; `groups` makes them for the others."""


def groups(trainer: str, fields: Iterable[Field]) -> tuple[Group, ...]:
    """Return the groups of a trainer with the fields that the installed TRL has; a group without any is left out.

    For a trainer without groups of its own the common ones come first, then what it adds to all trainers.
    """
    known = {field.name: field for field in fields}
    chosen = GROUPS.get(trainer) or (_BATCH, _ONLINE, *_COMMON[1:], *_LAST)
    kept = [_present(group, known) for group in chosen]
    if trainer not in GROUPS:
        grouped = {entry.name for group in kept for entry in group.entries}
        own = tuple(_plain(field) for field in known.values() if field.own and field.name not in grouped)
        kept.append(Group(title=_OWN, help="In TRL's own words.", entries=own))
    return tuple(group for group in kept if group.entries)


def other_fields(trainer: str, fields: Iterable[Field]) -> tuple[Field, ...]:
    """Return the fields that stand in no group, in TRL's order."""
    fields = tuple(fields)
    grouped = {entry.name for group in groups(trainer, fields) for entry in group.entries}
    return tuple(field for field in fields if field.name not in grouped)


def _present(group: Group, known: dict[str, Field]) -> Group:
    found = tuple(entry for entry in group.entries if entry.name in known)
    return Group(title=group.title, help=group.help, entries=found)


def _plain(field: Field) -> Entry:
    """Return a field with its own name as the label and the first sentence of TRL's help."""
    return Entry(name=field.name, label=field.name.replace("_", " "), help=field.help.partition(". ")[0])
