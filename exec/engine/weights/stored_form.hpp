// How files of Hugging Face's transformers hold a parameter: under which names, in how many tensors, laid out how.
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
  Interleaved,  // GPT-OSS: gate and up take turns along the last dimension; here the gate comes first
  GateUp,       // of each expert two matrices, the gate's and the other
  Down,         // of each expert one matrix
  LessOne,      // Gemma's norms: what 1 is added to
  RotaryPairs,  // DeepSeek: of each group of rows the last turn in neighbouring pairs; here in halves
};

struct StoredPart {
  std::string name;
  Shape shape;
};

struct StoredForm {
  StoredLayout layout = StoredLayout::Whole;
  std::vector<StoredPart> parts;
  std::int64_t group = 0, rotary = 0;  // RotaryPairs: rows of a group, and how many of its last ones turn
};

// The class whose files they are.
struct StoredModel {
  std::string type;             // "gpt2"
  LatentAttention latent = {};  // of DeepSeek's, where positions turn neighbouring pairs; kv_rank 0: not so
};

// Forms in which files hold a parameter (or buffer) of this name and whole shape; the first is the one that transformers writes
// for a model of this class.
std::vector<StoredForm> stored_forms(const Tensor& parameter, const StoredModel& model);

// The whole parameter, of its parts in order; and part k of the whole, contiguous.
at::Tensor whole_of_parts(const StoredForm& form, const std::vector<at::Tensor>& parts);
at::Tensor part_of_whole(const StoredForm& form, const at::Tensor& whole, std::size_t k);

}  // namespace panpipe::exec
