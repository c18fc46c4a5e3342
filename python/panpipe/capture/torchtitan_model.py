"""torchtitan's model as keys of config.json: from its tree of configurations (0.3), or the sizes of a flavor (before)."""

from __future__ import annotations

import typing

Keys = dict[str, typing.Any]
# Models whose parameters were counted on the meta device and are those of the class of transformers that is named here.
_KNOWN = ("llama3", "qwen3", "deepseek_v3", "gpt_oss", "kimi_k2_5")


def config_json_of(name: str, model: typing.Any) -> Keys:
    """Raises LookupError for a model that is none of the known forms, AttributeError for a form without a size."""
    return _of_tree(name, model) if hasattr(model, "layers") else _of_sizes(name, model)


def _first(layers: typing.Sequence[typing.Any], member: str) -> typing.Any:
    return next((value for layer in layers if (value := getattr(layer, member, None)) is not None), None)


def _of_tree(name: str, model: typing.Any) -> Keys:
    attention = _first(model.layers, "attention")
    feed_forward, experts = _first(model.layers, "feed_forward"), _first(model.layers, "moe")
    if attention is None or name.replace("/", ".").split(".")[-1] not in _KNOWN:
        raise LookupError(f"the layers of '{name}' are not known")
    latent = hasattr(attention, "kv_lora_rank")
    keys: Keys = {
        "num_hidden_layers": len(model.layers),
        "hidden_size": model.dim,
        "num_attention_heads": attention.n_heads,
        "vocab_size": model.vocab_size,
        "tie_word_embeddings": bool(getattr(model, "enable_weight_tying", False)),
        "max_position_embeddings": attention.rope.max_seq_len,
        "rope_theta": attention.rope.theta,
    }
    normed = getattr(attention, "qk_norm", None) is not None
    sinks = hasattr(attention, "sliding_window_size")
    keys["model_type"] = _type(latent, experts, normed, name)
    if latent:
        keys.update(_latent(attention))
    else:
        keys["num_key_value_heads"] = getattr(attention, "n_kv_heads", None) or attention.n_heads
        keys["head_dim"] = getattr(attention, "head_dim", None) or model.dim // attention.n_heads
    if sinks:
        windows = [layer.attention.sliding_window_size for layer in model.layers]
        keys["sliding_window"] = next((one for one in windows if one), None)
        keys["layer_types"] = ["sliding_attention" if one else "full_attention" for one in windows]
    if experts is not None:
        keys.update(_experts(keys["model_type"], model.layers, experts))
    if feed_forward is not None:
        keys["intermediate_size"] = feed_forward.w1.out_features
    if extra := len(getattr(model, "mtp_layers", None) or []):
        keys["num_nextn_predict_layers"] = extra
    elif latent:
        keys["num_nextn_predict_layers"] = 0
    return keys


def _type(latent: bool, experts: typing.Any, normed: bool, name: str) -> str:
    """The class of transformers with the same layers."""
    if latent:
        # The third version routes by sigmoid scores with a bias, the second by a softmax.
        return "deepseek_v3" if experts is None or experts.router.score_func == "sigmoid" else "deepseek_v2"
    if "gpt_oss" in name:
        return "gpt_oss"
    if normed:
        return "qwen3_moe" if experts is not None else "qwen3"
    if experts is not None:
        raise LookupError(f"{name} has experts in a form that no known class has")
    return "llama"


def _latent(attention: typing.Any) -> Keys:
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return {name: getattr(attention, name) for name in names} | {"q_lora_rank": attention.q_lora_rank or None}


def _experts(kind: str, layers: typing.Sequence[typing.Any], experts: typing.Any) -> Keys:
    inner = experts.routed_experts.inner_experts
    keys: Keys = {"num_experts_per_tok": experts.router.top_k}
    if not kind.startswith("deepseek"):
        if kind == "gpt_oss":
            return keys | {"num_local_experts": experts.num_experts, "intermediate_size": inner.hidden_dim}
        return keys | {
            "num_experts": experts.num_experts,
            "moe_intermediate_size": inner.hidden_dim,
            "norm_topk_prob": experts.router.route_norm,
        }
    shared = experts.shared_experts.w1.out_features if experts.shared_experts is not None else 0
    return keys | {
        "n_routed_experts": experts.num_experts,
        "moe_intermediate_size": inner.hidden_dim,
        "n_shared_experts": shared // inner.hidden_dim,
        "first_k_dense_replace": sum(getattr(layer, "moe", None) is None for layer in layers),
    }


def _of_sizes(name: str, sizes: typing.Any) -> Keys:
    """The dataclasses of 0.2: dim, n_layers, n_heads and so on."""
    keys: Keys = {
        "num_hidden_layers": sizes.n_layers,
        "hidden_size": sizes.dim,
        "num_attention_heads": sizes.n_heads,
        "vocab_size": sizes.vocab_size,
        "tie_word_embeddings": bool(getattr(sizes, "enable_weight_tying", False)),
        "max_position_embeddings": sizes.max_seq_len,
        "rope_theta": sizes.rope_theta,
    }
    moe = getattr(sizes, "moe_args", None) if getattr(sizes, "moe_enabled", name == "deepseek_v3") else None
    if hasattr(sizes, "kv_lora_rank"):
        third = moe is None or moe.score_func == "sigmoid"
        keys |= _latent(sizes) | {"model_type": "deepseek_v3" if third else "deepseek_v2", "num_nextn_predict_layers": 0}
        keys |= {"intermediate_size": sizes.inter_dim, "first_k_dense_replace": sizes.n_dense_layers}
        if moe is not None:
            keys |= {"n_routed_experts": moe.num_experts, "num_experts_per_tok": moe.top_k}
            keys |= {"moe_intermediate_size": sizes.moe_inter_dim, "n_shared_experts": moe.num_shared_experts}
        return keys
    keys["num_key_value_heads"] = sizes.n_kv_heads or sizes.n_heads
    if name == "qwen3":
        keys |= {"model_type": "qwen3", "head_dim": sizes.head_dim, "intermediate_size": sizes.hidden_dim}
        if moe is not None:
            keys |= {"model_type": "qwen3_moe", "num_experts": moe.num_experts, "num_experts_per_tok": moe.top_k}
            keys |= {"moe_intermediate_size": sizes.moe_inter_dim, "norm_topk_prob": moe.route_norm}
        return keys
    if name == "llama3":
        return keys | {"model_type": "llama", "intermediate_size": _rounded(sizes)}
    raise LookupError(f"the layers of '{name}' are not known")


def _rounded(sizes: typing.Any) -> int:
    """torchtitan's width of Llama's MLP: two thirds of four times the width, times a factor, rounded up to a multiple."""
    width = int(2 * 4 * sizes.dim / 3)
    if sizes.ffn_dim_multiplier is not None:
        width = int(sizes.ffn_dim_multiplier * width)
    multiple = int(sizes.multiple_of)
    return multiple * ((width + multiple - 1) // multiple)
