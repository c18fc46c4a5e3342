// The built-in models: a table of names with their dimensions, and one function per family that builds the graph. Internal to
// this folder. A new model is a row in models.cpp; a new family is a file and a row.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/transformer.hpp"
#include "costmodel/workload/workload.hpp"

namespace panpipe {

struct VisionTower;

// Dimensions of one model; 0 if the family lacks the dimension, or if it must be given.
struct ModelDimensions {
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, sequence = 0;
  int head_size = 0;  // 0: hidden size / heads
  int positions = 0;  // rows of the position embedding, at least `sequence`
  int image = 0, patch = 0, classes = 0;
  int vision_layers = 0, vision_hidden = 0, vision_heads = 0, vision_ffn = 0;  // of the encoder before a language model
  bool tied_embedding = false;
  double dropout = 0.0;
  TransformerTraits traits = {};                  // of a language model
  std::shared_ptr<const VisionTower> tower = {};  // in front of it (vision_tower.hpp)
};

// The dimensions that `workload:` may state.
struct CountKey {
  const char* key;
  const char* meaning;
  int WorkloadRequest::*asked;
  int ModelDimensions::*resolved;
};

inline constexpr CountKey kCounts[] = {
    {"layers", "transformer blocks; without `model`, a file of measured layers", &WorkloadRequest::layers,
     &ModelDimensions::layers},
    {"hidden", "width", &WorkloadRequest::hidden, &ModelDimensions::hidden},
    {"heads", "attention heads", &WorkloadRequest::heads, &ModelDimensions::heads},
    {"kv_heads", "heads of keys and values", &WorkloadRequest::kv_heads, &ModelDimensions::kv_heads},
    {"head_size", "width of a head", &WorkloadRequest::head_size, &ModelDimensions::head_size},
    {"ffn", "inner width of the MLP", &WorkloadRequest::ffn, &ModelDimensions::ffn},
    {"vocabulary", "words", &WorkloadRequest::vocabulary, &ModelDimensions::vocabulary},
    {"sequence", "tokens of a sample; `4k` is 4096", &WorkloadRequest::sequence, &ModelDimensions::sequence},
    {"image", "pixels of a side", &WorkloadRequest::image, &ModelDimensions::image},
    {"patch", "pixels of a patch's side", &WorkloadRequest::patch, &ModelDimensions::patch},
    {"classes", "classes of the head", &WorkloadRequest::classes, &ModelDimensions::classes},
    {"vision_layers", "blocks of the vision tower", &WorkloadRequest::vision_layers, &ModelDimensions::vision_layers},
    {"vision_hidden", "its width", &WorkloadRequest::vision_hidden, &ModelDimensions::vision_hidden},
    {"vision_heads", "its heads", &WorkloadRequest::vision_heads, &ModelDimensions::vision_heads},
    {"vision_ffn", "its inner width", &WorkloadRequest::vision_ffn, &ModelDimensions::vision_ffn},
};

// The keys of `workload:` that a family accepts, in addition to model and dropout.
struct ModelFamily {
  std::string_view name;
  std::vector<std::string_view> keys;      // all of them
  std::vector<std::string_view> required;  // those without a default, when the family itself is named
  const TransformerTraits* traits;         // of its layers, for a language model; else nullptr
  OperatorGraph (*build)(const std::string& model, const ModelDimensions&, const WorkloadShape&);
};

struct BuiltInModel {
  std::string_view name;
  const ModelFamily* family;
  ModelDimensions dimensions;
  std::string_view source;  // publication of the dimensions
};

const std::vector<BuiltInModel>& built_in_models();
const BuiltInModel* find_model(std::string_view name);

// Fills in missing values and checks that the dimensions fit together. Throws InputError with a sentence.
ModelDimensions resolve(const BuiltInModel& model, const WorkloadRequest& request);

// Also check the dimensions against the tensor-parallel degree. Throw InputError.
OperatorGraph build_language_model(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_bert(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_vit(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_mllm(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);
OperatorGraph build_unet(const std::string& model, const ModelDimensions& dimensions, const WorkloadShape& shape);

// Features of an attention head.
inline int features_of_head(const ModelDimensions& d) { return d.head_size > 0 ? d.head_size : d.hidden / d.heads; }

// Number of key-value heads; a family without the key has one per head.
inline int key_value_heads(const ModelDimensions& d) { return d.kv_heads > 0 ? d.kv_heads : d.heads; }

// Tokens per image for the language model; the projector joins 2 x 2 patches.
inline int image_tokens(const ModelDimensions& d) { return d.image / d.patch * (d.image / d.patch) / 4; }

// Checks that the dimensions of a language model fit together and are small enough to compute with. Throws InputError.
void check_language_model(const std::string& model, const ModelDimensions& dimensions);

// Throws InputError if the degrees do not fit a model with so many experts.
void require_degrees(const WorkloadShape& shape, int experts, const std::string& model);
// Throws InputError unless the degree divides the extent: "tensor parallelism of 3 does not divide 16 heads of gpt2-medium".
void require_divides(const WorkloadShape& shape, std::int64_t extent, std::string_view what, const std::string& model);
// Checks common to all transformers: heads, hidden size, width of the MLP, and the sequence if it is divided. Throws InputError.
void check_transformer_degree(const ModelDimensions& dimensions, int tokens, const WorkloadShape& shape,
                              const std::string& model);
// A context-parallel rank's tokens of a sample. Throws InputError unless the degree divides them (and for Ulysses the heads).
int tokens_of_rank(const ModelDimensions& dimensions, const WorkloadShape& shape, const std::string& model);
// Key-value heads are divided too: the degree divides them, or several ranks hold the same ones. Throws InputError otherwise.
void check_degree_of_heads(const ModelDimensions& dimensions, const WorkloadShape& shape, const std::string& model);

}  // namespace panpipe
