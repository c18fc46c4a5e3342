// The form of a parameter in files of Hugging Face's transformers: names, number of tensors, layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/transformer.hpp"

namespace panpipe::exec {

enum class StoredLayout {
  Whole,        // one tensor of the parameter's shape
  Transposed,   // GPT-2's Conv1D: (in, out)
  Interleaved,  // GPT-OSS: gate and up alternate along the last dimension; here the gate comes first
  GateUp,       // two matrices per expert, the gate's and the other
  Down,         // one matrix per expert
  Rows,         // Kimi Linear: convolutions of queries, keys and values, which are one here
  ByHead,       // Qwen 3 Next, MiniMax: each head's rows of several matrices in turn; here the matrices in turn
  RotaryPairs,  // DeepSeek: in each group some rows rotate in neighbouring pairs; here in halves
};

struct StoredPart {
  std::string name;
  Shape shape;
};

struct StoredForm {
  StoredLayout layout = StoredLayout::Whole;
  std::vector<StoredPart> parts;
  std::int64_t group = 0, rotary = 0,
               turns_from = 0;  // RotaryPairs: rows per group, how many of them rotate, the first that does
  Shape of_head = {};           // ByHead: rows of a head in each of the matrices
};

// The transformers class of the files.
struct StoredModel {
  std::string type;                 // "gpt2"
  LatentAttention latent = {};      // for DeepSeek models, where positions rotate neighbouring pairs; kv_rank 0: other models
  LinearMixer linear = {};          // of layers with a state
  std::int64_t index_features = 0;  // of a head of the indexer
};

// The possible forms of a parameter (or buffer) with this name and whole shape in files; the first is the one that transformers
// writes for this class.
std::vector<StoredForm> stored_forms(const Tensor& parameter, const StoredModel& model);

// The whole parameter from its parts in order; and part k of the whole, contiguous.
at::Tensor whole_of_parts(const StoredForm& form, const std::vector<at::Tensor>& parts);
at::Tensor part_of_whole(const StoredForm& form, const at::Tensor& whole, std::size_t k);

}  // namespace panpipe::exec
