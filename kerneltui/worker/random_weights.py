"""Models with random weights in place of downloaded ones, made on the device by transformers' own loading."""

from __future__ import annotations

from typing import Any


def use_random_weights(layers: int | None = None) -> None:
    """From now on let every `from_pretrained` of a model read only the configuration and make its weights at random.

    `layers` leaves the model only its first ones.

    transformers does so itself where it is given a state dictionary that lacks them: dtype, device map, quantization,
    attention and layer kernels are those of a real loading.
    """
    from transformers import PreTrainedModel, logging

    load = PreTrainedModel.from_pretrained.__func__

    def from_pretrained(cls: Any, path: Any, /, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        if config is None or isinstance(config, str):
            config = _configuration(cls, config or path, kwargs)
        if layers is not None:
            _shorten(config.get_text_config(), layers)
        logging.set_verbosity_error()  # a line for every weight that is missing
        model = load(cls, None, *args, config=config, state_dict={}, **kwargs)
        # The trainers load a reference model from where the first came from.
        model.config.name_or_path = model.name_or_path = str(path)
        return model

    PreTrainedModel.from_pretrained = classmethod(from_pretrained)


def _configuration(cls: Any, path: Any, kwargs: dict[str, Any]) -> Any:
    from transformers import AutoConfig

    wanted = {name: kwargs[name] for name in ("revision", "trust_remote_code", "token") if kwargs.get(name) is not None}
    return (cls.config_class or AutoConfig).from_pretrained(path, **wanted)


def _shorten(text: Any, layers: int) -> None:
    """Leave a configuration only its first layers."""
    text.num_hidden_layers = min(layers, text.num_hidden_layers)
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[: text.num_hidden_layers]
