#!/usr/bin/env python3
"""Writes the folders next to this file with Hugging Face's own classes, and prints the losses that published_weights_test.cpp expects.

    pip install torch transformers; python write.py

A model of each class with weights that no builder would draw, saved as from_pretrained() reads them: GPT-2 in one file, Llama in two
with an index, Llama in bfloat16 with a tied head; under classes/ those whose files hold something in a way of their own. The loss is
the mean over two samples of eight tokens and their successors.
"""

import pathlib

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
    "opt": dict(ffn_dim=32, word_embed_proj_dim=16),
}


def filled(model):
    """Weights of both signs, norms around 1, the same in every run."""
    generator = torch.Generator().manual_seed(5)
    buffers = [value for name, value in model.named_buffers() if "e_score" in name]
    with torch.no_grad():
        for value in list(model.parameters()) + buffers:
            around = 1 if value.dim() == 1 and value.mean() > 0.5 else 0
            value.copy_((torch.randn(value.shape, generator=generator) * 0.3).to(value.dtype) + around)
    return model.eval()


def loss(model):
    inputs, labels = TOKENS[:16].reshape(2, 8), TOKENS[1:17].reshape(2, 8)
    with torch.no_grad():
        logits = model(inputs).logits.float()
    return torch.nn.functional.cross_entropy(logits.reshape(16, -1), labels.reshape(16)).item()


def main():
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
    for name, values in CLASSES.items():
        config = AutoConfig.for_model(name, **{**SMALL, **values})
        for key in ("resid_pdrop", "embd_pdrop", "hidden_dropout", "attention_dropout", "dropout"):
            if hasattr(config, key):
                setattr(config, key, 0.0)
        model = filled(AutoModelForCausalLM.from_config(config))
        model.save_pretrained(HERE / "classes" / name)
        print(f"{name} {loss(model):.7f}")


if __name__ == "__main__":
    main()
