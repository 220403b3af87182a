"""Packing and padding-free batches: what the SFT and DPO trainers refuse, change, or warn of."""

from __future__ import annotations

from collections.abc import Callable

from packaging.version import Version

from kerneltui.advice import known
from kerneltui.advice.finding import Finding, Fix
from kerneltui.advice.fixes import use_attention
from kerneltui.advice.situation import Situation
from kerneltui.text import nearest

# TRL warned of other attention until this release, by a table of whole names; from 1.13 on it left out the revision.
_NO_TABLE = Version("1.16")
_STRIPS_REVISION = Version("1.13")
_TABLE = (
    "flash_attention_2",
    "flash_attention_3",
    known.FLASH_ATTENTION_2,
    "kernels-community/flash-attn3",
    "kernels-community/vllm-flash-attn3",
)
_STRATEGIES = ("bfd", "bfd_split", "wrapped", "bfd-requeue")


def length_not_enforced(situation: Situation) -> list[Finding]:
    """Without packing nothing cuts a padding-free batch to max_length, so SFT refuses the pair."""
    get = situation.settings.get
    if not _is_sft(situation) or not get("padding_free") or get("packing") or get("max_length") is None:
        return []
    return [
        Finding(
            id="packing.length_not_enforced",
            severity="block",
            title=f"padding_free without packing cannot hold max_length ({get('max_length')})",
            why="SFT refuses the pair: a padding-free batch is cut to max_length only by packing. "
            "max_length has a default, so that it is set although you did not name it.",
            origin="known",
            source="https://github.com/unslothai/unsloth/issues/7951",
            fixes=(
                Fix(label="Pack the samples", changes={"packing": True}),
                Fix(label="Do not limit the length", nulls=("max_length",)),
                Fix(label="Pad the batches", changes={"padding_free": None}),
            ),
        )
    ]


def packing_without_length(situation: Situation) -> list[Finding]:
    """Packing fills sequences of max_length tokens, so it needs one."""
    get = situation.settings.get
    evaluates = get("eval_strategy") not in (None, "no")
    packs = get("packing") or (get("eval_packing") and evaluates)
    if not _is_sft(situation) or not packs or get("max_length") is not None:
        return []
    return [
        Finding(
            id="packing.without_length",
            severity="block",
            title="packing needs a max_length",
            why="It fills sequences of that many tokens, and SFT refuses it without one.",
            origin="known",
            source=situation.cite("trl", "SFTTrainer._prepare_dataset"),
            fixes=(
                Fix(label="Take TRL's default length", changes={"max_length": None}),
                Fix(label="Do not pack", changes={"packing": None, "eval_packing": None}),
            ),
        )
    ]


def wrapped(situation: Situation) -> list[Finding]:
    """The strategy "wrapped" cuts a stream of tokens, and documents attend to one another across their borders."""
    get = situation.settings.get
    if not _is_sft(situation) or not get("packing") or get("packing_strategy") != "wrapped":
        return []
    return [
        Finding(
            id="packing.wrapped",
            severity="warn",
            title="packing_strategy wrapped mixes documents",
            why="Samples are joined and cut at max_length; each attends to those before it in the same sequence, with "
            "every attention implementation. That is meant for pre-training. bfd keeps samples apart.",
            origin="known",
            source=situation.cite("trl", "SFTTrainer (padding_free is for bfd and bfd_split)"),
            fixes=(Fix(label="Keep samples apart", changes={"packing_strategy": "bfd"}),),
        )
    ]


def strategy_name(situation: Situation) -> list[Finding]:
    """In a YAML file TRL does not compare packing_strategy with its choices before it packs."""
    get = situation.settings.get
    name = get("packing_strategy")
    if not _is_sft(situation) or not (get("packing") or get("eval_packing")) or name in (None, *_STRATEGIES):
        return []
    close = nearest(str(name), _STRATEGIES[:3]) or "bfd"
    return [
        Finding(
            id="packing.strategy",
            severity="block",
            title=f"TRL knows no packing strategy {name!r}",
            why="It takes bfd, bfd_split and wrapped, and would refuse this one after the model was loaded.",
            origin="known",
            source=situation.cite("trl", "data_utils.pack_dataset"),
            fixes=(Fix(label=f"Set packing_strategy to {close}", changes={"packing_strategy": close}),),
        )
    ]


def attention_table(situation: Situation) -> list[Finding]:
    """Before 1.16 TRL warned where the attention was not in its table of flash names."""
    version = situation.version("trl")
    if version is None or version.release >= _NO_TABLE.release or not _flattens(situation):
        return []
    choice = situation.attention
    name = choice.implementation
    if version.release >= _STRIPS_REVISION.release:
        name = name.partition("@")[0].partition(":")[0]
    if name in _TABLE or choice.kind == "unknown":
        return []
    return [_false_alarm(situation)] if choice.called_as_flash else [_mixes(situation)]


def batch_of_one(situation: Situation) -> list[Finding]:
    """A padding-free batch of one sample saves no padding."""
    get = situation.settings.get
    if not _is_sft(situation) or not get("padding_free") or get("packing") or get("per_device_train_batch_size") != 1:
        return []
    return [
        Finding(
            id="packing.batch_of_one",
            severity="note",
            title="padding_free saves nothing with one sample a batch",
            why="A batch of one sample has no padding.",
            origin="known",
            source=situation.cite("trl", "SFTTrainer.__init__"),
        )
    ]


def dpo_padding_free(situation: Situation) -> list[Finding]:
    """DPO turns padding_free off and only logs it."""
    if situation.plan.trainer != "dpo" or not situation.settings.get("padding_free"):
        return []
    return [
        Finding(
            id="packing.dpo_padding_free",
            severity="warn",
            title="DPO turns padding_free off",
            why="The installed trainer has no padding-free batches; it logs a warning and pads.",
            origin="known",
            source=situation.cite("trl", "DPOTrainer.__init__"),
            fixes=(Fix(label="Leave it out", changes={"padding_free": None}),),
        )
    ]


def _is_sft(situation: Situation) -> bool:
    return situation.plan.trainer == "sft"


def _flattens(situation: Situation) -> bool:
    """Whether SFT joins samples into one sequence and tells them apart by their positions."""
    get = situation.settings.get
    packs = bool(get("packing")) and get("packing_strategy") in ("bfd", "bfd_split")
    return _is_sft(situation) and (packs or bool(get("padding_free")))


def _false_alarm(situation: Situation) -> Finding:
    name = situation.attention.implementation
    return Finding(
        id="packing.false_alarm",
        severity="note",
        title="TRL will warn about the attention implementation; it is a false alarm",
        why=f"This TRL compares {name} with a table of whole names, in which it is not, and warns that samples may "
        "mix. The kernel's varlen function keeps them apart.",
        origin="known",
        source=situation.cite("trl", "trainer.sft_trainer.FLASH_ATTENTION_VARIANTS"),
    )


def _mixes(situation: Situation) -> Finding:
    choice, libraries = situation.attention, situation.server.libraries
    supports = situation.model is None or situation.model.supports_flash is not False
    offer = bool(situation.capabilities) and supports and libraries is not None
    return Finding(
        id="packing.not_flash",
        severity="warn",
        title=f"TRL {situation.version('trl')} does not vouch for joined samples with {choice.implementation}",
        why="Samples in one sequence are told apart by their positions alone. For flash attention this TRL knows that "
        "it works; with other attention it warns that samples may attend to one another.",
        origin="known",
        source=situation.cite("trl", "trainer.sft_trainer.FLASH_ATTENTION_VARIANTS"),
        fixes=(
            *((use_attention(situation, known.FLASH_ATTENTION_2, "Take FlashAttention 2"),) if offer else ()),
            Fix(label="Do not join samples", changes={"packing": None, "padding_free": None}),
        ),
    )


RULES: tuple[Callable[[Situation], list[Finding]], ...] = (
    length_not_enforced,
    packing_without_length,
    wrapped,
    strategy_name,
    attention_table,
    batch_of_one,
    dpo_padding_free,
)
