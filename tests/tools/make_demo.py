"""Make what the demo ships: model, tokenizer, data sets and the two builds of the attention kernel.

    python tests/tools/make_demo.py [--into DIR]

DIR is `kerneltui/demo` unless given. The same call gives the same bytes: the texts are templates, the weights come from
Python's own seeded generator and not from a library's initialisation, and the JSON files are written here. Only the
spelling of `tokenizer.json` is that of the installed `tokenizers`.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

DEMO = Path(__file__).parents[2] / "kerneltui" / "demo"

Message = dict[str, str]
Row = dict[str, Any]

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (PAD, START, END)
CONTEXT = 2048

# Two layers of a Llama: grouped-query attention with heads of 16, so that every attention kernel has its usual work.
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "dtype": "bfloat16",
    "eos_token_id": SPECIAL_TOKENS.index(END),
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 128,
    "max_position_embeddings": CONTEXT,
    "mlp_bias": False,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "pad_token_id": SPECIAL_TOKENS.index(PAD),
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "use_cache": True,
    "vocab_size": 512,
}

# ChatML. What the assistant says, its end token included, is marked for the loss (TRL's assistant_only_loss).
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}
            {{- message['content'] + '<|im_end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message['content'] + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}

MEANINGS = (
    ("GPU kernel", "A GPU kernel is a function that many threads of the GPU run at once."),
    (
        "attention kernel",
        "An attention kernel is a GPU kernel that computes attention without storing all scores.",
    ),
    ("warp", "A warp is a group of 32 threads that run together."),
    ("tensor core", "A tensor core is a part of the GPU that multiplies small matrices."),
    ("learning rate", "The learning rate says how far one step moves the weights."),
    ("batch", "A batch is the set of examples that one step looks at."),
    ("token", "A token is a piece of text that has a number."),
    ("tokenizer", "A tokenizer turns text into tokens and tokens into text."),
    ("checkpoint", "A checkpoint is the saved state of a training run."),
    ("gradient", "The gradient says how the loss changes when a weight changes."),
    ("sliding window", "With a sliding window each token looks at a fixed number of tokens before it."),
    ("packing", "Packing puts several short examples into one row, so that no place is lost to padding."),
)

# Bytes that are not ASCII, as real data has them.
OTHER_LANGUAGES = (
    (
        "Was ist ein Kernel für die GPU?",
        "Ein Kernel ist eine Funktion, die viele Threads zugleich ausführen.",
    ),
    ("Wie groß ist ein Warp?", "Ein Warp hat 32 Threads."),
    ("Qu’est-ce qu’un noyau GPU ?", "Un noyau est une fonction exécutée par de nombreux threads à la fois."),
    ("¿Qué es un lote?", "Un lote es el conjunto de ejemplos que ve un paso."),
    ("O que é um gradiente?", "O gradiente diz como a perda muda quando um peso muda."),
    ("Co to jest token?", "Token to kawałek tekstu, który ma numer."),
    ("Что такое токен?", "Токен — это часть текста, у которой есть номер."),
    ("Τι είναι ο ρυθμός μάθησης;", "Λέει πόσο αλλάζουν τα βάρη σε ένα βήμα."),
    ("GPUとは何ですか？", "GPUは多くの計算を同時に行う装置です。"),
    ("什么是注意力？", "注意力让每个词看到其他的词。"),
    ("토큰이란 무엇인가요?", "토큰은 번호가 있는 글의 조각입니다."),
    ("Send a rocket, please.", "Here it is: 🚀"),
)

LICENSE = "Apache-2.0"


def said(question: str, answer: str) -> list[Message]:
    """Return one question with its answer as messages."""
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def sums() -> Iterator[tuple[int, int]]:
    """Yield 40 pairs of numbers to add."""
    for first in range(2, 10):
        for second in (3, 4, 6, 7, 9):
            yield first, second


def conversations() -> list[Row]:
    """Return the rows for SFT: short talk about sums, data types and GPUs, some with a system message or two turns."""
    rows = [said(f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}.") for a, b in sums()]
    for name, size in BYTES.items():
        rows.append(said(f"How many bytes does a {name} number take?", f"A {name} number takes {size}."))
    for millions in (1, 2, 3, 5, 8, 10, 20, 50):
        question = f"How much memory do {millions} million parameters take in bfloat16?"
        rows.append(said(question, f"{millions} million parameters take {2 * millions} MB in bfloat16."))
    rows += [said(f"What does {name} mean?", meaning) for name, meaning in MEANINGS]
    rows += [said(question, answer) for question, answer in OTHER_LANGUAGES]
    system = {"role": "system", "content": "You are a helpful assistant who knows GPUs."}
    rows += [[system, *said(f"Explain: {name}.", meaning)] for name, meaning in MEANINGS]
    for a, b in list(sums())[:7]:
        more = said("And one more?", f"{a} plus {b + 1} is {a + b + 1}.")
        rows.append([*said(f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."), *more])
    return [{"messages": messages} for messages in rows]


def preferences() -> list[Row]:
    """Return the rows for DPO, KTO and reward models: the right answer is chosen, a wrong one rejected."""
    rows = [
        preference(f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}.", f"{a} plus {b} is {a + b + 1}.")
        for a, b in sums()
    ]
    rows += [preference(f"What does {name} mean?", meaning, "I do not know.") for name, meaning in MEANINGS]
    rows += [preference(question, answer, "🤷") for question, answer in OTHER_LANGUAGES]
    return rows


def preference(question: str, chosen: str, rejected: str) -> Row:
    """Return one row with an explicit prompt, conversational."""
    return {
        "prompt": [{"role": "user", "content": question}],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }


def prompts() -> list[Row]:
    """Return the rows for trainers that write the answers themselves; `solution` is for a reward function."""
    rows = [(f"What is {a} plus {b}?", str(a + b)) for a, b in sums()]
    rows += [(f"Was ist {a} plus {b}? Bitte nur die Zahl für mich.", str(a + b)) for a, b in list(sums())[::5]]
    return [{"prompt": [{"role": "user", "content": text}], "solution": answer} for text, answer in rows]


def make_data(into: Path) -> None:
    """Write the data sets as JSON lines."""
    into.mkdir(parents=True, exist_ok=True)
    for name, rows in (
        ("conversations", conversations()),
        ("preferences", preferences()),
        ("prompts", prompts()),
    ):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (into / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def make_tokenizer(into: Path) -> None:
    """Write a byte-level BPE tokenizer trained on the conversations, with its chat template."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(conversations()), trainer)
    (into / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    (into / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    write_json(
        into / "tokenizer_config.json",
        {
            "clean_up_tokenization_spaces": False,
            "eos_token": END,
            "model_max_length": CONTEXT,
            "pad_token": PAD,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


def texts(rows: Iterable[Row]) -> Iterator[str]:
    """Yield what is said in the conversations."""
    for row in rows:
        for message in row["messages"]:
            yield message["content"]


def make_model(into: Path) -> None:
    """Write configuration and random weights."""
    write_json(into / "config.json", CONFIG)
    tokens = {key: CONFIG[key] for key in ("eos_token_id", "pad_token_id")}
    write_json(into / "generation_config.json", tokens)
    (into / "model.safetensors").write_bytes(save(weights(), metadata={"format": "pt"}))


def weights() -> dict[str, torch.Tensor]:
    """Return the weights in bfloat16: ones for the norms, the rest normal with the configuration's deviation.

    The output layer is the embedding (`tie_word_embeddings`), so it has no tensor of its own.
    """
    source = random.Random(0)
    return {name: random_tensor(source, shape) for name, shape in shapes().items()}


def random_tensor(source: random.Random, shape: tuple[int, ...]) -> torch.Tensor:
    """Return one weight; a vector is a norm's."""
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    rows, columns = shape
    values = [[source.gauss(0.0, CONFIG["initializer_range"]) for _ in range(columns)] for _ in range(rows)]
    return torch.tensor(values, dtype=torch.bfloat16)


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight under its name in a Llama checkpoint."""
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    queries = CONFIG["num_attention_heads"] * CONFIG["head_dim"]
    keys = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (CONFIG["vocab_size"], hidden)}
    for index in range(CONFIG["num_hidden_layers"]):
        found |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    return found | {"model.norm.weight": (hidden,)}


def make_attention(into: Path) -> None:
    """Write a build for the CPU and one for CUDA, both from the one source that lies beside them."""
    source = DEMO / "attention" / "demo_attention.py"
    for backend in ("cpu", "cuda"):
        build = into / "build" / f"torch-{backend}"
        build.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, build / "__init__.py")
        write_json(
            build / "metadata.json",
            {
                "name": "demo-attention",
                "id": f"_demo_attention_{backend}_v1",  # the name of the module: one a build
                "version": 1,
                "license": LICENSE,
                "python-depends": [],
                "backend": {"type": backend},
            },
        )


def write_json(path: Path, value: object) -> None:
    """Write `value` indented, as people read it."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description="Make the files that the demo ships.")
    parser.add_argument("--into", type=Path, default=DEMO, help="where they go (default: %(default)s)")
    into: Path = parser.parse_args().into
    make_data(into / "data")
    (into / "model").mkdir(parents=True, exist_ok=True)
    make_tokenizer(into / "model")
    make_model(into / "model")
    make_attention(into / "attention")


if __name__ == "__main__":
    main()
