"""The model: what its configuration says, without its weights."""

from __future__ import annotations

from pathlib import Path

from kerneltui.errors import KerneltuiError, UsageError
from kerneltui.facts.proof import AttentionShape
from kerneltui.interpreter import Asker
from kerneltui.records import Record, from_builtins
from kerneltui.text import plain


class ModelFacts(Record):
    """A model's configuration as the installed transformers reads it; None where it does not say.

    `head_dims` are all head dimensions of its layer kinds, largest first; `window` is in tokens; `attention` has the
    shape of each kind of layer with attention; the `supports_…` and
    `compatible_flash` flags are those of the first named class, None where this transformers lacks the class; so are
    `recomputes` (it supports gradient checkpointing), `sinks` (a learned logit for each head), and `recurrent` (layers
    that keep a state along the sequence), whose packed sequences are refused without the packages `packed_needs` (None:
    this transformers does not look for them). `router` tells of experts that give back their router's logits; `dropout`
    is that of attention.

    `parameters` are counted in its class, built without memory, shared ones once; `linear` are the names of its linear
    layers with their number, without its `head`; `experts` weights of experts that are no layers of their own.
    `chat_template` tells whether its tokenizer has one.
    """

    model_type: str
    architectures: tuple[str, ...] = ()
    layers: int | None = None
    hidden_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dims: tuple[int, ...] = ()
    vocabulary: int | None = None
    context: int | None = None
    window: int | None = None
    softcap: float | None = None
    layer_types: tuple[str, ...] = ()
    attention: tuple[AttentionShape, ...] = ()
    dtype: str | None = None
    supports_flash: bool | None = None
    supports_sdpa: bool | None = None
    supports_flex: bool | None = None
    compatible_flash: tuple[str, ...] | None = None
    parameters: int | None = None
    linear: dict[str, int] = {}
    head: str | None = None
    experts: tuple[str, ...] = ()
    chat_template: bool | None = None
    dropout: float | None = None
    router: bool | None = None
    recomputes: bool | None = None
    sinks: bool | None = None
    recurrent: bool | None = None
    packed_needs: tuple[str, ...] | None = None

    @property
    def grouped(self) -> bool:
        """Whether several query heads share one key/value head (GQA or MQA)."""
        return bool(self.heads and self.kv_heads and self.heads != self.kv_heads)


# Exceptions of huggingface_hub and of the HTTP library below it that come without an answer.
UNREACHABLE = (
    *("LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectError", "ConnectTimeout", "ReadError", "ReadTimeout"),
    *("RemoteProtocolError", "ProxyError", "ConnectionError", "SSLError", "UnsupportedProtocol"),
)


def read_model(
    asker: Asker, path: str, cwd: Path, *, revision: str | None = None, trust_remote_code: bool = False
) -> ModelFacts:
    """Return the facts of the model at a local `path` or of that Hub name.

    Raises UsageError (no such path, no config.json) or KerneltuiError (the Hub did not give it), with a next step.
    """
    _check_local(path, cwd)
    answer = asker.ask(
        "transformers.model", path=path, cwd=str(cwd), revision=revision, trust_remote_code=trust_remote_code
    )
    if "error" in answer:
        raise _model_error(path, answer["error_type"], plain(answer["error"]), answer["status"])
    return from_builtins(answer, ModelFacts, f"the model facts of {path}")


def _check_local(path: str, cwd: Path) -> None:
    local = cwd / Path(path).expanduser()
    if local.is_dir():
        if not (local / "config.json").is_file():
            raise UsageError(
                f"No config.json in {path}",
                "A model folder holds config.json beside its weights.",
                "Give the folder that save_pretrained wrote, or a checkpoint-N folder inside it.",
            )
    elif local.exists() or path.startswith(("/", ".", "~")) or path.endswith("/") or path.count("/") > 1:
        raise UsageError(
            f"No model folder at {path}",
            f"{local} {'is a file' if local.exists() else 'does not exist'}.",
            "Check model_name_or_path (a folder or a Hub name).",
        )


def _model_error(path: str, kind: str, message: str, status: int | None) -> KerneltuiError:
    first = message.strip().splitlines()[0] if message.strip() else kind
    if "Invalid credentials in Authorization header" in message:
        return KerneltuiError("The Hub does not accept the token", first, "Log in again with `hf auth login`.")
    if kind == "GatedRepoError" or status == 403:
        return KerneltuiError(
            f"{path} is gated", first, "Ask for access on its page, then log in with `hf auth login`."
        )
    if status == 401 and kind in ("RepositoryNotFoundError", "HfHubHTTPError"):
        return KerneltuiError(
            f"No model {path} on the Hub, or it is private (401)",
            f"Nor is it a folder here. Without a login the Hub tells the two apart for nobody. {first}",
            "Check the name; for a private model log in with `hf auth login`, then try again.",
        )
    if kind in ("RepositoryNotFoundError", "HFValidationError") or (kind == "HfHubHTTPError" and status == 404):
        return KerneltuiError(
            f"No model {path} on the Hub, or it is private to others",
            f"Nor is it a folder here. {first}",
            "Check the name; for a private model, its owner must give your account access.",
        )
    if status == 429:
        return KerneltuiError(
            "The Hub refuses more requests for now (429)",
            first,
            "Wait, then try again; a login (hf auth login) has a higher limit than none.",
        )
    if status is not None and status >= 500:
        return KerneltuiError(
            f"The Hub has a failure of its own ({status})",
            first,
            "Try again in a minute; https://status.huggingface.co tells of outages.",
        )
    if kind == "RevisionNotFoundError":
        return KerneltuiError(f"{path} has no such revision", first, "Check model_revision.")
    if kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
        return KerneltuiError(
            f"{path} has no config.json", first, "It may not be a transformers model; check the name."
        )
    if kind in UNREACHABLE:
        return KerneltuiError(
            f"Cannot get the configuration of {path}: the Hub cannot be reached and the cache does not hold it",
            first,
            "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or give a local folder.",
        )
    return KerneltuiError(f"The configuration of {path} cannot be read", first, "Check the model.")
