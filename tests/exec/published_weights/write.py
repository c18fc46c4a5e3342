#!/usr/bin/env python3
"""Writes the folders next to this file with Hugging Face's own classes, and prints the losses that published_weights_test.cpp expects.

    pip install torch transformers; python write.py [CLASS...]

A model of each class with weights that no builder would draw, saved as from_pretrained() reads them: GPT-2 in one file, Llama in two
with an index, Llama in bfloat16 with a tied head; under classes/ those whose files hold something in a way of their own, and those
with layers of their own. The loss is the mean over two samples of eight tokens and their successors; of classes/ the second number is
the loss after a step of SGD with rate 0.05, which each gradient takes part in.
"""

import copy
import json
import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = torch.tensor([(i * i + 3 * i) % 48 for i in range(17)])
LLAMA = dict(
    num_hidden_layers=2,
    hidden_size=16,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=32,
    vocab_size=48,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)
SMALL = dict(
    num_hidden_layers=2,
    hidden_size=16,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=32,
    vocab_size=48,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=0,
    eos_token_id=0,
)
STATE_SPACE = dict(mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=3, mamba_d_conv=4)
DELTA_NET = dict(
    head_dim=8,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=8,
    linear_value_head_dim=4,
    layer_types=["linear_attention", "full_attention"],
)
INDEXED = dict(
    num_key_value_heads=4,
    n_routed_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=8,
    q_lora_rank=8,
    kv_lora_rank=8,
    qk_nope_head_dim=8,
    qk_rope_head_dim=4,
    v_head_dim=8,
    n_shared_experts=1,
    n_group=1,
    topk_group=1,
    num_nextn_predict_layers=0,
    index_n_heads=2,
    index_head_dim=8,
    index_topk=3,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0),
)
CLASSES = {
    "llama": dict(
        rope_parameters=dict(
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=16,
            rope_theta=10000.0,
        )
    ),
    "gemma2": dict(head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
    "gemma3n_text": dict(
        num_hidden_layers=4,
        head_dim=8,
        sliding_window=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        num_kv_shared_layers=2,
        activation_sparsity_pattern=[0.6, 0.0, 0.0, 0.0],
        vocab_size_per_layer_input=48,
        hidden_size_per_layer_input=4,
        laurel_rank=3,
        altup_num_inputs=3,
    ),
    "phi": {},
    "bloom": dict(n_layer=2, n_head=4),
    "falcon": {},
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=16),
    "deepseek_v3": dict(
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=8,
        first_k_dense_replace=1,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        num_nextn_predict_layers=0,
    ),
    "deepseek_v32": dict(**INDEXED, first_k_dense_replace=1),
    "glm_moe_dsa": dict(**INDEXED, indexer_types=["full", "shared"], mlp_layer_types=["dense", "sparse"]),
    "opt": dict(ffn_dim=32, word_embed_proj_dim=16),
    "gpt_oss": dict(
        head_dim=8,
        sliding_window=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        swiglu_limit=0.5,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0),
    ),
    "mamba": dict(state_size=8, time_step_rank=3, use_bias=True, tie_word_embeddings=False),
    "falcon_mamba": dict(state_size=8),
    "jamba": dict(
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=4,
        mamba_d_state=8,
        mamba_dt_rank=4,
    ),
    "mamba2": dict(num_heads=4, head_dim=8, n_groups=2, state_size=8, chunk_size=3, expand=2, tie_word_embeddings=False),
    "bamba": dict(attn_layer_indices=[1], **STATE_SPACE),
    "nemotron_h": dict(
        hybrid_override_pattern="ME*-",
        mamba_num_heads=4,
        mamba_head_dim=8,
        n_groups=2,
        ssm_state_size=8,
        chunk_size=3,
        head_dim=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        moe_shared_expert_intermediate_size=16,
        n_group=1,
        topk_group=1,
    ),
    "qwen3_next": dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=16, **DELTA_NET
    ),
    "qwen3_5_text": DELTA_NET,
    "minimax": dict(
        layer_types=["linear_attention", "full_attention"],
        num_local_experts=4,
        num_experts_per_tok=2,
        block_size=3,
        head_dim=8,
        full_attn_alpha_factor=1.5,
        linear_attn_alpha_factor=1.25,
        mlp_beta_factor=0.75,
    ),
    "kimi_linear": dict(
        layer_types=["linear_attention", "full_attention"],
        num_key_value_heads=4,
        linear_num_heads=4,
        linear_head_dim=4,
        kv_lora_rank=8,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=8,
        num_experts=4,
        num_experts_per_token=2,
        moe_intermediate_size=8,
        first_k_dense_replace=1,
        num_shared_experts=1,
        num_expert_group=1,
        topk_group=1,
    ),
    "lfm2": dict(layer_types=["conv", "full_attention"], block_multiple_of=8),
    "lfm2_moe": dict(
        layer_types=["conv", "full_attention"],
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=8,
        num_dense_layers=1,
    ),
}
# Layers that predict further tokens, which transformers leaves out: the last layer of a model of its class is made one.
FURTHER = {"deepseek_v3_mtp": "deepseek_v3"}


def filled(model):
    """Weights of both signs, norms around 1, the same in every run."""
    generator = torch.Generator().manual_seed(5)
    buffers = [value for name, value in model.named_buffers() if "e_score" in name or "expert_bias" in name]
    with torch.no_grad():
        for value in list(model.parameters()) + buffers:
            around = 1 if value.dim() == 1 and value.mean() > 0.5 else 0
            value.copy_((torch.randn(value.shape, generator=generator) * 0.3).to(value.dtype) + around)
    return model.eval()


def small_model(name, **more):
    config = AutoConfig.for_model(name, **{**SMALL, **CLASSES[name], **more})
    for key in ("resid_pdrop", "embd_pdrop", "hidden_dropout", "attention_dropout", "dropout"):
        if hasattr(config, key):
            setattr(config, key, 0.0)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None  # whose row would have no gradient
    return model


def with_further(name):
    """DeepSeek-V3's section 2.2: norms of the word and of the stream before, their product, a layer, a norm."""
    model = small_model(FURTHER[name], num_hidden_layers=SMALL["num_hidden_layers"] + 1)
    layer, hidden, norm = model.model.layers[-1], SMALL["hidden_size"], type(model.model.norm)
    layer.enorm, layer.hnorm, layer.shared_head = norm(hidden), norm(hidden), torch.nn.Module()
    layer.shared_head.norm = norm(hidden)
    layer.eh_proj = torch.nn.Linear(2 * hidden, hidden, bias=False)
    return model


def class_model(name):
    return filled(with_further(name) if name in FURTHER else small_model(name))


def save(model, name, folder):
    model.save_pretrained(folder)
    if name not in FURTHER:
        return
    path = pathlib.Path(folder) / "config.json"
    config = json.loads(path.read_text())
    config.update(num_hidden_layers=SMALL["num_hidden_layers"], mtp_num_layers=1, num_nextn_predict_layers=1)
    path.write_text(json.dumps(config, indent=2) + "\n")


def entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits.float().reshape(labels.numel(), -1), labels.reshape(-1))


def loss_with_further(model, inputs, labels):
    inner, positions = model.model, torch.arange(inputs.shape[1]).unsqueeze(0)
    x = inner.embed_tokens(inputs)
    more = dict(
        position_embeddings=inner.rotary_emb(x, positions),
        attention_mask=torch.full((inputs.shape[1], inputs.shape[1]), float("-inf")).triu(1)[None, None],
    )
    for layer in inner.layers[:-1]:
        x = layer(x, **more)
    x, last = inner.norm(x), inner.layers[-1]
    joined = last.eh_proj(torch.cat([last.enorm(inner.embed_tokens(labels)), last.hnorm(x)], -1))
    further = last.shared_head.norm(last(joined, **more))
    later = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
    return entropy(model.lm_head(x), labels) + 0.3 * entropy(model.lm_head(further), later)


def loss_of(model, name=""):
    """With its gradients. Each sample is a microbatch of its own, whose mean counts as much as the others'."""
    inputs, labels = TOKENS[:16].reshape(2, 8), TOKENS[1:17].reshape(2, 8)
    if name in FURTHER:
        return loss_with_further(model, inputs, labels)
    return entropy(model(inputs, use_cache=False).logits, labels)


def loss(model):
    with torch.no_grad():
        return loss_of(model).item()


def losses_of_class(model, name):
    """Before and after a step of SGD."""
    model = copy.deepcopy(model)
    before = loss_of(model, name)
    before.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.05 * parameter.grad
        return before.item(), loss_of(model, name).item()


def write_first():
    gpt = filled(
        GPT2LMHeadModel(
            GPT2Config(
                n_layer=2,
                n_embd=16,
                n_head=2,
                n_inner=64,
                n_positions=12,
                vocab_size=48,
                resid_pdrop=0,
                embd_pdrop=0,
                attn_pdrop=0,
            )
        )
    )
    gpt.save_pretrained(HERE / "gpt")
    llama = filled(LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=False)))
    llama.save_pretrained(HERE / "llama", max_shard_size="15KB")
    tied = filled(LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True)).to(torch.bfloat16))
    tied.save_pretrained(HERE / "tied")
    print(f"gpt {loss(gpt):.7f}\nllama {loss(llama):.7f}\ntied {loss(tied.float()):.7f}")


def main():
    if not sys.argv[1:]:
        write_first()
    for name in sys.argv[1:] or [*CLASSES, *FURTHER]:
        model = class_model(name)
        save(model, name, HERE / "classes" / name)
        print("{} {:.7f} {:.7f}".format(name, *losses_of_class(model, name)))


if __name__ == "__main__":
    main()
