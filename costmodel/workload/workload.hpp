// A workload: an operator graph (from a builder or an archive) or a table of measured layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "base/precision.hpp"
#include "base/quantity.hpp"
#include "costmodel/workload/expert_load.hpp"
#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/profiled_layers.hpp"

namespace panpipe {

// A measured layer; every number is per microbatch. File form: kind: layers (docs/file-formats.md).
struct MeasuredLayer {
  std::string name;
  Duration forward{0};
  Duration input_gradient{0};
  Duration weight_gradient{0};
  bool split_backward = true;  // false: only `backward` was given; input_gradient holds it and weight_gradient is 0
  Bytes saved{0};              // still allocated after the forward; may be negative
  Bytes temporary{0};          // peak above the bytes live before it runs
  Bytes parameters{0};
  Bytes inputs{0};        // graph inputs it reads
  Duration optimizer{0};  // once per step, after the device's last action
};

struct LayerEdge {
  int from = 0, to = 0;
  Bytes bytes{0};
  std::string tensor;  // edges of one layer with the same tensor name are one tensor, sent once per consuming stage
};

struct LayerTable {
  std::string source;
  std::vector<MeasuredLayer> layers;  // topological order
  std::vector<LayerEdge> edges;
  ProfiledLayers profiles;  // if the file has several per layer; `layers` then hold those of one tensor degree
};

struct ModelConfig;

// The trained parameters of a model. Patterns match names (* any text, ? one letter).
struct Tuning {
  int rank = 0;                      // of the two LoRA factors next to each target's weight; 0: none
  double alpha = 0;                  // scales their product by alpha / rank
  std::vector<std::string> targets;  // last names of modules ("q_proj"); `all-linear`: every product of a block
  std::vector<std::string> frozen;   // patterns of frozen parameters; under LoRA all but the factors are frozen
  double dropout = 0;                // share of the first factor's input that is dropped; 0: no operator
  bool quantized = false;            // QLoRA: weights of targets in 4 bits (NF4), unpacked by a kernel when read

  bool any() const { return rank > 0 || !frozen.empty(); }
};

// The workload that a scenario requests, before shapes are known (they need microbatch and tensor degree).
struct WorkloadRequest {
  std::string
      model;  // name of a built-in, or "gpt" | "llama" | "bert" | "vit" | "unet" | "mllm" with dimensions; empty for layers / pt2
  std::string layers_file;                    // resolved path
  std::string pt2_file;                       // resolved path
  std::string config_file;                    // resolved path of a model's config.json
  std::shared_ptr<const ModelConfig> config;  // content of that file
  std::string weights;  // for a built-in model: resolved path of a safetensors file or folder; predictions ignore it
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, sequence = 0;  // 0 = the model's default
  int head_size = 0;                                                                           // 0 = hidden / heads
  int image = 0, patch = 0, classes = 0;
  int vision_layers = 0, vision_hidden = 0, vision_heads = 0, vision_ffn = 0;
  std::optional<bool> tied_embedding;
  Tuning tuning;
  double dropout = 0.0;  // probability; 0 leaves dropout out of the graph
};

// Reads `workload:` of a scenario.
WorkloadRequest read_workload(const Node& node, ReadLog& log);
// The declared keys of `workload:`.
Key workload_key();

// How context-parallel ranks combine queries with the keys and values of the whole sequence (docs/models/context.md). Keys and
// values travel around a ring block by block during the attention; or they are gathered; or heads are exchanged for the sequence.
enum class ContextExchange : std::uint8_t { Ring, AllGather, Ulysses };

struct WorkloadShape {
  Degrees degrees;  // only those of Degrees::of_graph matter
  Precision precision = Precision::Fp32;
  ContextExchange exchange = ContextExchange::Ring;
  ExpertLoad expert_load = {};
  bool vocabulary_apart = false;   // the first and the last unit hold nothing but the vocabulary's work (vocabulary_apart.hpp)
  const Tuning* tuning = nullptr;  // of the request, only during construction
};

struct Workload {
  std::string name;
  WorkloadShape shape;  // shape that it was built in
  std::optional<OperatorGraph> graph;
  std::optional<LayerTable> layers;
  std::int64_t parameters = 0;          // of the whole model; 0 for measured layers
  std::int64_t trained_parameters = 0;  // trained part of these, counted as in transformers: no buffers, a tied one once
  Flops model_flops{0};  // forward and backward of one sample without recompute (PaLM's convention: 3x forward matrix products)
};

// Builds or loads the workload. Throws InputError (unknown model, heads that do not divide, degree that does not divide ...).
Workload make_workload(const WorkloadRequest& request, const WorkloadShape& shape);

// Tokens per sample if the model reads a sequence of them (its input `input_ids`), else 0.
int tokens_per_sample(const Workload& workload);

// Names of the built-in models, for messages and help.
std::vector<std::string> model_names();

// If layers have profiles, uses those of the tensor degree; for degree 1, a layer without one uses its smallest degree.
LayerTable load_layers(const std::string& path, int tensor_degree = 1);

}  // namespace panpipe
