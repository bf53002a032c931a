"""Train low-rank updates of a transformer's weight matrices instead of the weights themselves (LoRA, Hu et al. 2022),
with the package peft.

A checkpoint contains the whole model with the updates merged into its weights, which can be loaded without peft. It
also contains the updates separately, from which an interrupted training is resumed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.db.errors import Missing, Refused

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

UPDATES = "lora.safetensors"
ALPHA = 2  # an update counts this often, whatever its rank: peft scales it by ALPHA x rank / rank


def add_updates(model: Module, trained_part: Module, rank: int, seed: int) -> None:
    """Freeze the model, and add trainable updates to all linear layers of the transformers in its part `trained_part`.

    The updates are initialised to zero, so the model's vectors do not change at first. Raises Refused if there is no
    transformer.
    """
    import torch
    from peft import LoraConfig, inject_adapter_in_model
    from sentence_transformers.sentence_transformer.modules import Transformer

    transformers = [module for module in trained_part.modules() if isinstance(module, Transformer)]
    if not transformers:
        raise Refused("LoRA updates the layers of a transformer, and this model has none; train it without --lora")
    model.requires_grad_(False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for each in transformers:
            config = LoraConfig(r=rank, lora_alpha=ALPHA * rank, target_modules="all-linear")
            inject_adapter_in_model(config, each.model)


def has_updates(model: Module) -> bool:
    return bool(_updates(model))


def merge_updates(model: Any) -> Any:
    """Return a copy of the model with the updates merged into its weights, and without peft's layers."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    whole = copy.deepcopy(model)
    for parent in list(whole.modules()):
        if hasattr(parent, "peft_config"):
            del parent.peft_config
        for name, child in list(parent.named_children()):
            if isinstance(child, BaseTunerLayer):
                child.merge()
                setattr(parent, name, child.get_base_layer())
    return whole


def save_updates(model: Module, folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: weight.detach().contiguous() for name, weight in _updates(model).items()}, folder / UPDATES)


def load_updates(model: Module, folder: Path) -> None:
    """Load the updates of a checkpoint into the model. Raises Missing if the checkpoint has none."""
    import torch
    from safetensors.torch import load_file

    if not (folder / UPDATES).is_file():
        raise Missing(f"{folder} has no {UPDATES}; give --restart to train from the start")
    saved = load_file(folder / UPDATES)
    with torch.no_grad():
        for name, weight in _updates(model).items():
            weight.copy_(saved[name])


def _updates(model: Module) -> dict[str, Tensor]:
    return {name: weight for name, weight in model.named_parameters() if ".lora_" in name}
