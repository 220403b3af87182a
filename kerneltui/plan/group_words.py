"""The words of the form: the fields that matter, in groups and in plain language, for each trainer.

Only names stand here. What a field takes and what its default is, the installed TRL says (`kerneltui.plan.fields`); a
name that it does not have is left out.
"""

from __future__ import annotations

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
_REFERENCE = _group(
    "Reference model",
    "The model as it was at the start, which training is held to.",
    precompute_ref_log_probs=("reference first", "computes the reference once before training, which frees its memory"),
    precompute_ref_batch_size=("its batch", "samples a GPU while that is done"),
    sync_ref_model=("moving reference", "TR-DPO: the reference follows the model"),
    ref_model_mixup_alpha=("how far", "share of the model that goes into the reference"),
    ref_model_sync_steps=("how often", "steps between"),
    disable_dropout=("no dropout", "makes both models comparable"),
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
    router_aux_loss_coef=("router loss", "for mixtures of experts: how strongly experts are balanced"),
)
_KTO = _group(
    "Good and bad answers",
    "How strongly single answers count, and what the model is held to.",
    beta=("beta", "how close the model stays to the reference; higher is closer"),
    loss_type=("loss", "kto needs a batch of two or more; apo_zero_unpaired also takes one"),
    desirable_weight=("weight of good", "raise it where there are fewer good answers than bad ones"),
    undesirable_weight=("weight of bad", "good rows x weight should be 1 to 4/3 of bad rows x weight"),
    router_aux_loss_coef=("router loss", "for mixtures of experts: how strongly experts are balanced"),
)
_REWARD = _group(
    "Scores",
    "How the model learns to give the chosen answer the higher score.",
    center_rewards_coefficient=("keep near zero", "pulls scores towards a mean of zero; 0.01 is usual, null is off"),
    disable_dropout=("no dropout", "makes the two scores of a pair comparable"),
    chat_template_path=("chat template", "a .jinja file, or a model whose template to take"),
    eos_token=("end token", "the token that ends a turn; null takes the tokenizer's"),
)
_REWARDS = _group(
    "Rewards",
    "What scores the answers.",
    reward_funcs=("reward functions", "TRL's by name, or your own as package.module.function"),
    reward_model_name_or_path=("reward model", "a model that scores, instead or besides"),
    reward_model_path=("reward model", "a model that scores"),
    reward_weights=("reward weights", "one a reward: the reward model's first, then the functions'"),
    multi_objective_aggregation=("several rewards", "are added and then normalized, or each normalized first"),
    scale_rewards=("scale", "divide by the spread of a group, of the batch, or not at all"),
    normalize_advantages=("normalize", "advantages to mean 0 and deviation 1 over the batch"),
    reward_clip_range=("clip", "rewards outside [low, high] are cut"),
    missing_eos_penalty=("no end", "what is taken off the score of an answer that does not end"),
)
_GENERATION = _group(
    "Generation",
    "What is generated while training.",
    num_generations=("answers a prompt", "that are compared; the batch of a step must be a multiple"),
    max_completion_length=("longest answer", "in tokens; what does not end by then is cut"),
    max_new_tokens=("longest answer", "in tokens"),
    max_prompt_length=("longest prompt", "in tokens; longer ones lose their beginning"),
    generation_batch_size=("generated at once", "samples; null is what one optimizer step needs"),
    steps_per_generation=("steps a generation", "that the same answers are used for"),
    num_generations_eval=("answers in evaluation", "null is as many as in training"),
    temperature=("temperature", "how varied the answers are; 1 is the model's own distribution"),
    top_p=("top-p", "keep the likeliest tokens up to this share; 1 keeps all"),
    top_k=("top-k", "keep so many of the likeliest tokens; 0 keeps all"),
    min_p=("min-p", "drop tokens less likely than this share of the likeliest"),
    repetition_penalty=("repetition", "above 1 repeated tokens become less likely"),
    generation_kwargs=("further options", "a mapping for GenerationConfig or vLLM's SamplingParams"),
    chat_template_kwargs=("template options", "a mapping such as {enable_thinking: false}"),
    cache_implementation=("cache", "static or others of transformers; not with vLLM"),
    use_transformers_continuous_batching=("continuous batching", "transformers' own: faster than one batch at a time"),
    transformers_continuous_batching_config=("its options", "a mapping for ContinuousBatchingConfig"),
    max_tool_calling_iterations=("tool rounds", "at most so many turns of calls to tools; null is no limit"),
    shuffle_dataset=("shuffle first", "the prompts, before training"),
    log_completions=("log answers", "writes samples of prompts and answers"),
    num_completions_to_print=("printed", "so many of them; null prints all"),
    log_unique_prompts=("each prompt once", "in that log"),
)
_POLICY = _group(
    "Policy",
    "How the answers' rewards change the model, and what it is held to.",
    loss_type=("loss", "dapo is TRL's default; grpo, dr_grpo and bnpo weigh tokens in other ways"),
    beta=("beta", "how close the model stays to the reference; 0 needs no reference and its memory"),
    num_iterations=("passes a batch", "more than 1 uses the same answers again, clipped by epsilon"),
    epsilon=("epsilon", "how far a token's probability may move in a pass"),
    epsilon_high=("upper epsilon", "DAPO takes 0.28; null is as epsilon"),
    delta=("upper bound", "two-sided clipping; null is off, else more than 1 + epsilon"),
    importance_sampling_level=("ratios of", "single tokens, or whole sequences (GSPO)"),
    mask_truncated_completions=("leave out cut ones", "answers that were cut do not count"),
    top_entropy_quantile=("only uncertain tokens", "this share of tokens, by entropy; 1 takes all"),
    entropy_coef=("entropy bonus", "rewards varied answers; 0 is off"),
    use_adaptive_entropy=("adaptive bonus", "moves it so that the entropy stays at its target"),
    entropy_target=("target entropy", "in nats a token"),
    entropy_coef_min=("least bonus", "of the adaptive one"),
    entropy_coef_max=("most bonus", "of the adaptive one"),
    entropy_coef_delta=("its step", "by which the adaptive bonus moves"),
    sapo_temperature_neg=("SAPO below zero", "temperature for tokens of bad answers"),
    sapo_temperature_pos=("SAPO above zero", "temperature for tokens of good answers"),
    vespo_k_pos=("VESPO k, good", "power for good answers"),
    vespo_lambda_pos=("VESPO lambda, good", "decay for good answers"),
    vespo_k_neg=("VESPO k, bad", "power for bad answers"),
    vespo_lambda_neg=("VESPO lambda, bad", "decay for bad answers"),
    off_policy_mask_threshold=("off-policy mask", "leave out bad answers that are far from the policy; null is off"),
    use_bias_correction_kl=("unbiased KL", "weighs the KL term by the importance ratio"),
    cast_lm_head_to_fp32=("head in float32", "computes the last layer more exactly"),
    router_aux_loss_coef=("router loss", "for mixtures of experts: how strongly experts are balanced"),
)
_VLLM = _group(
    "vLLM",
    "Generate with vLLM, beside the training or on a server: much faster, and needs its package.",
    use_vllm=("vLLM", "needs trl[vllm] and a GPU"),
    vllm_mode=("where", "colocate shares the GPU with training; server is `trl vllm-serve` on other GPUs"),
    vllm_gpu_memory_utilization=("its share of memory", "of the GPU that it shares with the training"),
    vllm_max_model_length=("its longest sequence", "prompt and answer together; less takes less memory"),
    vllm_tensor_parallel_size=("GPUs a copy", "when it shares the GPUs of the training"),
    vllm_enable_sleep_mode=("sleep between", "gives its memory back while the weights are changed"),
    vllm_model_impl=("model code", "vLLM's own, or that of transformers"),
    vllm_server_base_url=("server", "its address, such as http://localhost:8000"),
    vllm_server_host=("host", "of the server, where no address is given"),
    vllm_server_port=("port", "of the server, where no address is given"),
    vllm_server_timeout=("wait for it", "seconds"),
    vllm_group_port=("port for weights", "over which it gets the new weights"),
    vllm_sync_frequency=("new weights every", "steps"),
    vllm_structured_outputs_regex=("only answers like", "a regular expression"),
    vllm_importance_sampling_correction=("correct its numbers", "for what differs between vLLM and the training"),
    vllm_importance_sampling_mode=("how", "by token or sequence, cut or left out"),
    vllm_importance_sampling_clip_max=("largest ratio", "beyond which it cuts or leaves out"),
    vllm_importance_sampling_clip_min=("smallest ratio", "null is none"),
)
_TEACHER = _group(
    "Teacher",
    "The model to learn from.",
    teacher_model_name_or_path=("teacher", "a folder or a Hub name; its vocabulary must be the student's"),
    teacher_model_revision=("its revision", "branch, tag or commit"),
    teacher_model_init_kwargs=("its loading options", "further arguments of from_pretrained"),
    teacher_tokenizer_name_or_path=("its tokenizer", "where it is not the student's"),
    use_teacher_server=("on a server", "asks a vLLM server instead of loading the teacher here"),
    teacher_model_server_url=("its address", "such as http://localhost:8000"),
    teacher_server_urls=("its addresses", "one or more vLLM servers that hold it"),
)
_DISTILLATION = _group(
    "Distillation",
    "How the distance to the teacher is measured.",
    beta=("divergence", "0 is forward KL, 1 reverse KL, between them a mixture"),
    disable_dropout=("no dropout", "in the student"),
)

_COMMON = (_LEARNING, _PRECISION, _LORA, _KERNELS)
_LAST = (_SAVING, _TRACKERS, _EVALUATION)

GROUPS: dict[str, tuple[Group, ...]] = {
    "sft": (_BATCH, _PACKING, _SFT, *_COMMON, *_LAST),
    "dpo": (_BATCH, _DPO, _REFERENCE, *_COMMON, *_LAST),
    "kto": (_BATCH, _KTO, _REFERENCE, *_COMMON, *_LAST),
    "reward": (_BATCH, _REWARD, *_COMMON, *_LAST),
    "grpo": (_BATCH, _REWARDS, _GENERATION, _POLICY, _REFERENCE, _VLLM, *_COMMON, *_LAST),
    "rloo": (_BATCH, _REWARDS, _GENERATION, _POLICY, _REFERENCE, _VLLM, *_COMMON, *_LAST),
    "distillation": (_BATCH, _TEACHER, _DISTILLATION, _GENERATION, _VLLM, *_COMMON, *_LAST),
}
"""The groups of the trainers of the `trl` command."""

FIRST = (_BATCH, _TEACHER, _REWARDS, _GENERATION, _PACKING)
"""Of the groups of every other trainer, those before what it adds itself."""

LAST = (_REFERENCE, _VLLM, *_COMMON, *_LAST)
"""And those behind it."""
