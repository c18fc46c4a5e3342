// The built-in models: a table of names with their dimensions, and one function per family that writes the graph.
// Internal to this folder. A new model is a row in models.cpp; a new family is a file and a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/transformer.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

// Dimensions of one model; 0 where a family has no such dimension, or where it must be given.
struct ModelDimensions {
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, sequence = 0;
  int head_size = 0;  // 0: the heads share out the hidden size
  int positions = 0;  // rows of the position embedding, at least `sequence`
  int image = 0, patch = 0, classes = 0;
  int vision_layers = 0, vision_hidden = 0, vision_heads = 0, vision_ffn = 0;  // of the encoder in front of a language model
  bool tied_embedding = false;
  double dropout = 0.0;
  TransformerTraits traits = {};  // of a language model
};

// The keys of `workload:` that a family understands, besides model and dropout.
struct ModelFamily {
  std::string_view name;
  std::vector<std::string_view> keys;      // all of them
  std::vector<std::string_view> required;  // those without a default when the family is named itself
  const TransformerTraits* traits;         // of its layers, where it is a language model
  OperatorGraph (*build)(const std::string& model, const ModelDimensions&, const WorkloadShape&);
};

struct BuiltInModel {
  std::string_view name;
  const ModelFamily* family;
  ModelDimensions dimensions;
  std::string_view source;  // where the dimensions are published
};

const std::vector<BuiltInModel>& built_in_models();
const BuiltInModel* find_model(std::string_view name);

// Fills in what the request leaves open and checks that the dimensions fit together. Throws InputError with a sentence.
ModelDimensions resolve(const BuiltInModel& model, const WorkloadRequest& request);

// Also checks the dimensions against the tensor-parallel degree. Throw InputError.
OperatorGraph build_language_model(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_bert(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_vit(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_mllm(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_unet(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);

// Features of an attention head.
inline int features_of_head(const ModelDimensions& d) { return d.head_size > 0 ? d.head_size : d.hidden / d.heads; }

// Key-value heads; a family without the key has one for every head.
inline int key_value_heads(const ModelDimensions& d) { return d.kv_heads > 0 ? d.kv_heads : d.heads; }

// Tokens that an image gives the language model: the projector joins 2 x 2 patches.
inline int image_tokens(const ModelDimensions& d) { return d.image / d.patch * (d.image / d.patch) / 4; }

// Dimensions of a transformer over a vocabulary that fit together and are small enough to count with. Throws InputError.
void check_language_model(const std::string& model, const ModelDimensions& dimensions);

// Throws InputError unless the degree divides the extent: "tensor parallelism of 3 does not divide 16 heads of gpt2-medium".
void require_divides(const WorkloadShape& shape, std::int64_t extent, std::string_view what, const std::string& model);
// The checks that all transformers share: heads, hidden size, width of the MLP; the sequence when it is split.
void check_transformer_degree(const ModelDimensions& dimensions, int tokens, const WorkloadShape& shape,
                              const std::string& model);
// Of a sample, the tokens that a context-parallel rank has. Throws InputError unless the degree divides them (and for Ulysses the
// heads).
int tokens_of_rank(const ModelDimensions& dimensions, const WorkloadShape& shape, const std::string& model);
// Key-value heads are cut too: the degree divides them, or several ranks hold the same ones.
void check_degree_of_heads(const ModelDimensions& dimensions, const WorkloadShape& shape, const std::string& model);

}  // namespace panpipe
