// Layers of one family that another family also has: a multimodal model's encoder is a ViT, its language model a Llama.
// Internal to this folder.
#pragma once

#include <string>
#include <string_view>

#include "costmodel/workload/builder.hpp"
#include "costmodel/workload/models.hpp"

namespace panpipe {

// vit.cpp: layers of an encoder over `tokens` (patches, and the class token where there is one), (batch, tokens, hidden).
// `layer` is the modules' path. Both take and give the residual stream.
struct VitLayers {
  GraphBuilder& g;
  const ModelDimensions& d;
  std::int64_t tokens;
};
int vit_attention(const VitLayers& vit, int x, const std::string& layer);
int vit_mlp(const VitLayers& vit, int x, const std::string& layer);

// gpt.cpp: the head over the vocabulary, tied to the embedding `word_weight` where the dimensions say so, and the mean loss over
// all tokens. `x`: (batch, sequence, hidden), normalized, inside the parallel region. Returns the loss.
int next_token_loss(GraphBuilder& g, const ModelDimensions& d, int x, int labels, int word_weight, std::string_view init);

// llama.cpp: layers of a decoder over `d.sequence` tokens.
struct LlamaLayers {
  GraphBuilder& g;
  const ModelDimensions& d;
  int cosine = -1, sine = -1;  // buffers (sequence, head size), so that no table travels between stages
};
void add_rotary_tables(LlamaLayers& llama);
int llama_attention(const LlamaLayers& llama, int x, const std::string& layer);
int llama_mlp(const LlamaLayers& llama, int x, const std::string& layer);
// Final normalization, head and loss over all `d.sequence` tokens; `word_weight` is the embedding, for a tied head.
int llama_head(const LlamaLayers& llama, int x, int labels, int word_weight);

void check_llama_degree(const ModelDimensions& d, const WorkloadShape& shape, const std::string& model);

}  // namespace panpipe
