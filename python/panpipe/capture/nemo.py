"""Megatron-Bridge: a recipe of NeMo, as a function that returns a ConfigContainer.

    nemo --recipe llama3_8b_pretrain_2gpu_h100_bf16_config train.global_batch_size=256 model.tensor_model_parallel_size=2

`--recipe` is a name that megatron.bridge.recipes exports, or MODULE:FUNCTION; KEY=VALUE replaces a member, as run_recipe.py
does. The document has the container, and `words`: the same as arguments of Megatron-LM.
"""

from __future__ import annotations

import ast
import importlib
import typing

from .document import CannotCapture, Captured, plain, release_of

# Members with Megatron-LM's option, by the part of the container.
_OPTIONS = {
    "model": (
        "num_layers hidden_size ffn_hidden_size num_attention_heads kv_channels seq_length position_embedding_type rotary_base "
        "rotary_percent normalization vocab_size make_vocab_size_divisible_by tensor_model_parallel_size "
        "pipeline_model_parallel_size virtual_pipeline_model_parallel_size:num-virtual-stages-per-pipeline-rank "
        "context_parallel_size expert_model_parallel_size expert_tensor_parallel_size cp_comm_type recompute_granularity "
        "recompute_method recompute_num_layers recompute_modules num_moe_experts:num-experts moe_router_topk moe_ffn_hidden_size "
        "moe_shared_expert_intermediate_size moe_layer_freq moe_token_dispatcher_type moe_expert_capacity_factor q_lora_rank "
        "kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim mtp_num_layers attention_backend transformer_impl "
        "num_layers_in_first_pipeline_stage:decoder-first-pipeline-num-layers "
        "num_layers_in_last_pipeline_stage:decoder-last-pipeline-num-layers pipeline_model_parallel_layout"
    ),
    "train": "micro_batch_size global_batch_size train_iters",
    "optimizer": "optimizer exp_avg_dtype exp_avg_sq_dtype optimizer_offload_fraction lr",
    "mixed_precision": (
        "fp8:fp8-format fp8_recipe fp4:fp4-format fp4_recipe num_layers_at_start_in_bf16 num_layers_at_end_in_bf16"
    ),
}
_FLAGS = {
    "model": (
        "sequence_parallel multi_latent_attention qk_layernorm moe_grouped_gemm moe_permute_fusion cross_entropy_loss_fusion "
        "add_qkv_bias account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split moe_pad_expert_input_to_capacity"
    ),
    "ddp": "use_distributed_optimizer overlap_grad_reduce overlap_param_gather use_megatron_fsdp",
    "optimizer": "use_precision_aware_optimizer optimizer_cpu_offload",
    "mixed_precision": "bf16 fp16 fp8_param_gather fp4_param_gather first_last_layers_bf16",
    "comm_overlap": "tp_comm_overlap",
}
# Members that are true without the flag.
_REVERSED = {
    "add_bias_linear": "disable-bias-linear",
    "share_embeddings_and_output_weights": "untie-embeddings-and-output-weights",
    "bias_activation_fusion": "no-bias-swiglu-fusion",
    "bias_dropout_fusion": "no-bias-dropout-fusion",
}


def capture(arguments: list[str], world: int | None) -> Captured:
    name, overrides = _split(arguments)
    container = _recipe(name)()
    for assignment in overrides:
        _replace(container, assignment)
    captured = Captured(plain(container), release_of("megatron-bridge", "nemo_toolkit"), world=world)
    captured.words = words_of(container)
    return captured


def _split(arguments: list[str]) -> tuple[str, list[str]]:
    name, overrides, words = "", [], iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option == "--recipe":
            name = value if equals else next(words, "")
        elif equals and not option.startswith("-"):
            overrides.append(word)
        else:
            raise CannotCapture(f"nemo: '{word}' is neither --recipe NAME nor KEY=VALUE")
    if not name:
        raise CannotCapture("nemo: name a recipe: --recipe llama3_8b_pretrain_config")
    return name, overrides


def _recipe(name: str) -> typing.Any:
    place, colon, function = name.rpartition(":")
    module = importlib.import_module(place if colon else "megatron.bridge.recipes")
    recipe = getattr(module, function, None)
    if not callable(recipe):
        raise CannotCapture(f"nemo: {module.__name__} has no recipe '{function}'")
    return recipe


def _replace(container: typing.Any, assignment: str) -> None:
    path, _, text = assignment.partition("=")
    *owners, last = path.split(".")
    for owner in owners:
        container = getattr(container, owner, None)
    if not hasattr(container, last):
        raise CannotCapture(f"nemo: the recipe has no '{path}'")
    try:
        value = ast.literal_eval({"true": "True", "false": "False", "null": "None"}.get(text, text))
    except (ValueError, SyntaxError):
        value = text
    setattr(container, last, value)


def words_of(container: typing.Any) -> list[str]:
    """The container as arguments of Megatron-LM."""
    parts = {name: getattr(container, name, None) for name in {*_OPTIONS, *_FLAGS}}
    if isinstance(parts["mixed_precision"], str):
        parts["mixed_precision"] = _named_precision(parts["mixed_precision"])
    words: list[str] = []
    for part, names in _OPTIONS.items():
        for name in names.split():
            member, _, option = name.partition(":")
            value = plain(getattr(parts[part], member, None))
            if value is not None and value != []:
                texts = [str(one) for one in value] if isinstance(value, list) else [str(value)]
                words += ["--" + (option or member).replace("_", "-"), *texts]
    for part, names in _FLAGS.items():
        words += ["--" + name.replace("_", "-") for name in names.split() if getattr(parts[part], name, None) is True]
    words += _special(parts["model"], parts["ddp"])
    return words


def _special(model: typing.Any, ddp: typing.Any) -> list[str]:
    words = ["--" + option for member, option in _REVERSED.items() if getattr(model, member, None) is False]
    groups = getattr(model, "num_query_groups", None)
    if groups is not None and groups != getattr(model, "num_attention_heads", groups):
        words += ["--group-query-attention", "--num-query-groups", str(groups)]
    if getattr(model, "gated_linear_unit", False):
        words.append("--swiglu")
    if getattr(ddp, "grad_reduce_in_fp32", True) is False:
        words.append("--grad-reduce-in-bf16")
    return words


def _named_precision(name: str) -> typing.Any:
    module = importlib.import_module("megatron.bridge.training.mixed_precision")
    return module.get_mixed_precision_config(name)
