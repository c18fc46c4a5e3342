#!/usr/bin/env python3
"""Writes the folders beside this file with Hugging Face's own classes, and prints the losses that published_weights_test.cpp expects.

    pip install torch transformers; python write.py

A model of each class with weights that no builder would draw, saved as from_pretrained() reads them: GPT-2 in one file, Llama in two
with an index, Llama in bfloat16 with a tied head. The loss is the mean over two samples of eight tokens and their successors.
"""
import pathlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = torch.tensor([(i * i + 3 * i) % 48 for i in range(17)])
LLAMA = dict(num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32, vocab_size=48,
             max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0)


def filled(model):
    """Weights of both signs, norms around 1, the same in every run."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in model.parameters():
            around = 1 if value.dim() == 1 and value.mean() > 0.5 else 0
            value.copy_((torch.randn(value.shape, generator=generator) * 0.3).to(value.dtype) + around)
    return model.eval()


def loss(model):
    inputs, labels = TOKENS[:16].reshape(2, 8), TOKENS[1:17].reshape(2, 8)
    with torch.no_grad():
        logits = model(inputs).logits.float()
    return torch.nn.functional.cross_entropy(logits.reshape(16, -1), labels.reshape(16)).item()


def main():
    gpt = filled(GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=16, n_head=2, n_inner=64, n_positions=12, vocab_size=48,
                                            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)))
    gpt.save_pretrained(HERE / "gpt")
    llama = filled(LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=False)))
    llama.save_pretrained(HERE / "llama", max_shard_size="15KB")
    tied = filled(LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=True)).to(torch.bfloat16))
    tied.save_pretrained(HERE / "tied")
    print(f"gpt {loss(gpt):.7f}\nllama {loss(llama):.7f}\ntied {loss(tied.float()):.7f}")


if __name__ == "__main__":
    main()
