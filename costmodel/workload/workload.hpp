// A workload: an operator graph (from a builder or an archive) or a table of measured layers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/input/reader.hpp"
#include "base/precision.hpp"
#include "base/quantity.hpp"
#include "costmodel/workload/graph.hpp"
#include "costmodel/workload/profiled_layers.hpp"

namespace panpipe {

// A measured layer; every number is per microbatch. File form: kind: layers (docs/file-formats.md).
struct MeasuredLayer {
  std::string name;
  Duration forward{0};
  Duration input_gradient{0};
  Duration weight_gradient{0};
  bool split_backward = true;  // false: only `backward` was given; it is input_gradient, weight_gradient is 0
  Bytes saved{0};              // left allocated after the forward; may be negative
  Bytes temporary{0};          // peak while it runs over what was live before
  Bytes parameters{0};
  Bytes inputs{0};        // graph inputs it reads
  Duration optimizer{0};  // once per step, after the device's last action
};

struct LayerEdge {
  int from = 0, to = 0;
  Bytes bytes{0};
  std::string tensor;  // edges of one layer with one tensor name are one tensor, sent once per consuming stage
};

struct LayerTable {
  std::string source;
  std::vector<MeasuredLayer> layers;  // topological order
  std::vector<LayerEdge> edges;
  ProfiledLayers profiles;  // where the file gives several for a layer; `layers` then hold those of one tensor degree
};

struct ModelConfig;

// Which parameters of a model are trained. Patterns are of names (* any text, ? one letter).
struct Tuning {
  int rank = 0;                      // of LoRA's two factors beside each target's weight; 0: none
  double alpha = 0;                  // their product counts alpha / rank
  std::vector<std::string> targets;  // last names of modules ("q_proj"); `all-linear`: every product of a block
  std::vector<std::string> frozen;   // parameters whose names match; under LoRA all but the factors are
  bool quantized = false;            // QLoRA: weights of targets in 4 bits (NF4), read through a kernel that unpacks them

  bool any() const { return rank > 0 || !frozen.empty(); }
};

// What the scenario asks for, before shapes are known (they need microbatch and tensor degree).
struct WorkloadRequest {
  std::string
      model;  // name of a built-in, or "gpt" | "llama" | "bert" | "vit" | "unet" | "mllm" with dimensions; empty for layers / pt2
  std::string layers_file;                    // resolved path
  std::string pt2_file;                       // resolved path
  std::string config_file;                    // resolved path of a model's config.json
  std::shared_ptr<const ModelConfig> config;  // what that file says
  std::string weights;  // of a built-in model: resolved path of a safetensors file, or of a folder; predictions do not look at it
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

// How tokens fall on experts (docs/models/expert-parallelism.md); none stated: evenly, and none is dropped.
struct ExpertLoad {
  std::optional<double> imbalance;  // rows of the busiest rank of an expert group over the mean
  std::optional<double> capacity;   // rows that an expert takes over the mean: more are dropped, fewer are padded
  // Rows that a rank sends over those that its tokens ask for, and rows that the busiest of so many ranks receives over the mean.
  double sent() const;
  double received(int ranks) const;
};

// How context-parallel ranks bring queries together with the keys and values of the whole sequence (docs/models/context.md):
// keys and values go round block by block beside the attention; they are gathered; or heads are exchanged for the sequence.
enum class ContextExchange : std::uint8_t { Ring, AllGather, Ulysses };

struct WorkloadShape {
  int microbatch = 1;  // samples
  int tensor_degree = 1;
  bool sequence_parallel = false;
  Precision precision = Precision::Fp32;
  int context_degree = 1;  // ranks that share a sample's sequence
  ContextExchange exchange = ContextExchange::Ring;
  int expert_degree = 1;  // ranks that share out the experts
  int expert_tensor = 0;  // ranks that divide an expert's width: 1, or 0 = those of the tensor group
  ExpertLoad expert_load = {};
  const Tuning* tuning = nullptr;  // of the request, while it is built
};

struct Workload {
  std::string name;
  WorkloadShape shape;  // that it was built in
  std::optional<OperatorGraph> graph;
  std::optional<LayerTable> layers;
  std::int64_t parameters = 0;          // of the whole model; 0 for measured layers
  std::int64_t trained_parameters = 0;  // of those, what is trained, as transformers counts it: no buffers, a tied one once
  Flops model_flops{0};  // forward and backward of one sample without recompute (PaLM's convention: 3x forward matrix products)
};

// Builds or loads it. Throws InputError (unknown model, heads that do not divide, degree that does not divide ...).
Workload make_workload(const WorkloadRequest& request, const WorkloadShape& shape);

// Tokens of a sample, where the model reads a sequence of them (its input `input_ids`); else 0.
int tokens_per_sample(const Workload& workload);

// Names of the built-in models, for messages and help.
std::vector<std::string> model_names();

// Of layers with profiles those for the tensor degree are taken, or where a layer has none for degree 1, of its least degree.
LayerTable load_layers(const std::string& path, int tensor_degree = 1);

}  // namespace panpipe
