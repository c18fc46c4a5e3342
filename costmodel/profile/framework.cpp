#include "costmodel/profile/framework.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text/quantity_text.hpp"
#include "costmodel/profile/sourced_file.hpp"

namespace panpipe {

namespace {

struct LossKernels {
  double bytes = 0;  // a logit, both directions (docs/models/compute.md has the counts)
  bool in_chunks = false;
  bool operator==(const LossKernels&) const = default;
};

const Choices<LossKernels>& losses() {
  static const Choices<LossKernels> all = {
      {"eager", {44}}, {"vocabulary-parallel", {52}}, {"compiled", {24}}, {"fused", {8}}, {"chunked", {74, true}}};
  return all;
}

// Single keys of a scenario's map, read as a file's are, but without sources.
class ChoicesReader {
 public:
  explicit ChoicesReader(MapReader& reader) : reader_(reader) {}
  bool has(const std::string& key) {
    reader_.find(key);  // known, so that a misspelt key finds it
    return reader_.has(key);
  }
  void error(const std::string& key, const std::string& message, const std::string& help) {
    reader_.log().error_at_key(reader_.node(), key, message, help);
  }
  void read(const std::string& key, double& value, Sign sign = Sign::NonNegative) {
    if (has(key)) value = reader_.number(key, sign);
  }
  void read(const std::string& key, int& value) {
    if (has(key)) value = reader_.integer(key, 0);
  }
  void read(const std::string& key, bool& value) {
    if (has(key)) value = reader_.boolean(key);
  }
  void read(const std::string& key, Duration& value) {
    if (has(key)) value = reader_.duration(key);
  }
  void read(const std::string& key, Bytes& value) {
    if (has(key)) value = reader_.bytes(key);
  }
  template <class T>
  void read(const std::string& key, T& value, const Choices<T>& choices) {
    if (has(key)) value = reader_.choice<T>(key, choices);
  }

 private:
  MapReader& reader_;
};

// Lists the keys that read_keys() reads.
class KeyLister {
 public:
  std::vector<Key> keys;

  bool has(const std::string&) const { return true; }
  void error(const std::string&, const std::string&, const std::string&) {}
  void read(const std::string& key, double& value, Sign sign = Sign::NonNegative) {
    add(key, {form::number(sign)}, {}, value < 0 ? "0.5" : fmt::format("{}", value));  // below 0 it is counted
  }
  void read(const std::string& key, int& value) { add(key, {form::whole(0)}, {}, std::to_string(value)); }
  void read(const std::string& key, bool& value) { add(key, {form::truth()}, {}, value ? "true" : "false"); }
  void read(const std::string& key, Duration& value) { add(key, {form::time()}, {}, exact_text(value)); }
  void read(const std::string& key, Bytes& value) { add(key, {form::size()}, {}, exact_text(value)); }
  template <class T>
  void read(const std::string& key, T&, const Choices<T>& choices) {
    add(key, {}, names_of(choices), "");
  }

 private:
  void add(const std::string& key, std::vector<Form> forms, std::vector<std::string> words, std::string example) {
    keys.push_back({.name = key,
                    .forms = std::move(forms),
                    .words = std::move(words),
                    .otherwise = "the preset's",
                    .example = std::move(example)});
  }
};

template <class Reader>
void read_choices(Reader& reader, Framework& f) {
  reader.read("attention", f.attention, attention_kernels());
  reader.read(
      "elementwise", f.elementwise,
      Choices<Elementwise>{{"fused", Elementwise::Fused}, {"compiled", Elementwise::Compiled}, {"eager", Elementwise::Eager}});
  reader.read("normalization", f.normalization,
              Choices<NormalizationKernel>{{"kernel", NormalizationKernel::Kernel},
                                           {"operators", NormalizationKernel::Operators},
                                           {"modules", NormalizationKernel::Modules}});
  reader.read("activation", f.activation,
              Choices<ActivationKernel>{{"kernel", ActivationKernel::Kernel}, {"operators", ActivationKernel::Operators}});
  reader.read("autocast", f.autocast);
  reader.read("gradient_accumulation", f.gradient_accumulation,
              Choices<GradientAccumulation>{{"fused", GradientAccumulation::Fused},
                                            {"fp32", GradientAccumulation::Fp32},
                                            {"autograd", GradientAccumulation::Autograd},
                                            {"buffer", GradientAccumulation::Buffer},
                                            {"flat", GradientAccumulation::Flat}});
  // apex's FusedAdam is the fused kernel by another name.
  reader.read("optimizer_kernel", f.optimizer_kernel,
              Choices<OptimizerKernel>{{"fused", OptimizerKernel::Fused},
                                       {"foreach", OptimizerKernel::Foreach},
                                       {"loop", OptimizerKernel::Loop},
                                       {"apex", OptimizerKernel::Fused}});
  reader.read("gradient_clipping", f.gradient_clipping,
              Choices<GradientClipping>{
                  {"none", GradientClipping::None}, {"foreach", GradientClipping::Foreach}, {"loop", GradientClipping::Loop}});
  reader.read("zero_gradients", f.zero_gradients);
  reader.read("gradient_scaler", f.gradient_scaler);
  reader.read("fp8_scaling", f.fp8_scaling,
              Choices<Fp8Scaling>{{"delayed", Fp8Scaling::Delayed}, {"current", Fp8Scaling::Current}});
  reader.read("fp8_parameters", f.fp8_parameters);
  LossKernels loss{f.loss_bytes_per_logit, f.loss_in_chunks};
  reader.read("loss", loss, losses());
  f.loss_bytes_per_logit = loss.bytes;
  f.loss_in_chunks = loss.in_chunks;
  reader.read("training_metrics", f.training_metrics);
  reader.read("dropout", f.dropout);
}

template <class Reader>
void read_execution(Reader& reader, Execution& e) {
  reader.read("blocking_transfers", e.blocking_transfers);
  reader.read("splits_first_backward", e.splits_first_backward);
  reader.read("tensor_chunks", e.tensor_chunks);
  reader.read("gradient_bucket", e.gradient_bucket);
  reader.read("gradient_bucket_elements", e.gradient_bucket_elements);
  reader.read("gradient_bucket_elements_per_copy", e.gradient_bucket_elements_per_copy);
  reader.read("awaited_buckets", e.awaited_buckets);
  reader.read("overlap_all_reduce", e.overlap_all_reduce);
  reader.read("overlap_reduce_scatter", e.overlap_reduce_scatter);
  reader.read("overlap_parameter_gather", e.overlap_parameter_gather);
  reader.read("hand_over_buffers", e.hand_over_buffers,
              Choices<HandOverBuffers>{{"neighbours", HandOverBuffers::Neighbours}, {"waiting", HandOverBuffers::Waiting}});
  reader.read("gradient_storage", e.gradient_storage,
              Choices<GradientStorage>{{"kept", GradientStorage::Kept}, {"autograd", GradientStorage::Autograd}});
}

template <class Reader>
void read_keys(Reader& reader, Framework& f) {
  read_choices(reader, f);
  read_execution(reader, f);
  reader.read("elementwise_factor", f.elementwise_factor);
  reader.read("replicated_factor", f.replicated_factor);
  reader.read("score_factor", f.score_factor);
  reader.read("optimizer_factor", f.optimizer_factor);
  reader.read("forward_operators", f.forward_operators);
  reader.read("backward_operators", f.backward_operators);
  if ((f.forward_operators > 0) != (f.backward_operators > 0)) {
    const bool forward = f.forward_operators > 0;
    reader.error(reader.has("forward_operators") && (forward || !reader.has("backward_operators")) ? "forward_operators"
                                                                                                   : "backward_operators",
                 fmt::format("forward_operators is {} and backward_operators {}: one of the passes would launch nothing",
                             f.forward_operators, f.backward_operators),
                 "state both, or neither: then they are counted from the operators");
  }
  reader.read("launch", f.launch);
  reader.read("collective_launches", f.collective_launches);
  reader.read("synchronous_launches", f.synchronous_launches);
  reader.read("scatter_gather", f.scatter_gather);
  reader.read("distributed_optimizer", f.distributed_optimizer);
  reader.read("overlap_tensor_collectives", f.overlap_tensor_collectives);
  reader.read("expert_dispatch", f.expert_dispatch,
              Choices<ExpertDispatch>{{"rows", ExpertDispatch::Rows}, {"nodes", ExpertDispatch::Nodes}});
  reader.read("residual_before_reduction", f.residual_before_reduction);
  reader.read("gather_prefetch", f.gather_prefetch);
  reader.read("gathers_in_flight", f.gathers_in_flight);
  if (f.gathers_in_flight < 1)
    reader.error("gathers_in_flight", "no block could be whole, so that none could run", "at least 1; FSDP holds 2");
  reader.read("gradient_bytes", f.gradient_bytes);
  reader.read("bf16_extra_gradient_bytes", f.bf16_extra_gradient_bytes);
  reader.read("keep_gathered_inputs", f.keep_gathered_inputs);
  reader.read("replicated_saved_factor", f.replicated_saved_factor);
  reader.read("sharded_saved_factor", f.sharded_saved_factor);
  reader.read("released_by_input_gradient", f.released_by_input_gradient);
  reader.read("loss_live_bytes_per_logit", f.loss_live_bytes_per_logit);
  reader.read("allocator_factor", f.allocator_factor, Sign::Positive);
  reader.read("context", f.context);
}

struct Meaning {
  std::string_view key, meaning, page;
};
constexpr Meaning kMeanings[] = {
    {"attention", "the kernels of attention", "models/compute.md#a-framework-is-a-list-of-choices"},
    {"elementwise", "element-wise operators as fused chains, as a compiler fuses them, or a kernel each", ""},
    {"normalization", "a normalization as one kernel, as a chain of operators, or as in `torch.nn`", ""},
    {"activation", "GELU as one kernel or as the operators of its tanh form", ""},
    {"autocast", "weights in fp32, cast for each product; residuals and normalizations in fp32", ""},
    {"gradient_accumulation", "how a microbatch's weight gradient is added to the others'", ""},
    {"optimizer_kernel", "one kernel for many parameters, one per operation, or one per operation and parameter", ""},
    {"gradient_clipping", "kernels that clip gradients to a norm", ""},
    {"zero_gradients", "gradients are set to zero, a kernel per parameter, instead of freed", ""},
    {"gradient_scaler", "fp16: gradients are divided by the loss's scale and checked for infinities", ""},
    {"fp8_scaling", "the scale of products in 8 bits: from earlier steps, or from the tensor itself", ""},
    {"fp8_parameters", "weights of products in 8 bits are kept and gathered in 8 bits", ""},
    {"loss", "the kernels of the loss", ""},
    {"training_metrics", "further cross entropies computed for the log, forward only", ""},
    {"dropout", "trains with dropout: masks are written, read and kept even if the graph has none", ""},
    {"elementwise_factor", "traffic of element-wise operators over the counted kernels; only a fit can give it", ""},
    {"replicated_factor",
     "the same for normalizations and residual sums, which tensor parallelism does not divide; 0: as `elementwise_factor`", ""},
    {"score_factor", "factor on the traffic of unfused attention scores", ""},
    {"optimizer_factor", "traffic of the optimizer step over one fused kernel", ""},
    {"forward_operators", "host launches of a layer's forward, instead of the count; with `backward_operators`",
     "models/compute.md#launches-of-a-layer"},
    {"backward_operators", "host launches of a layer's backward, instead of the count; with `forward_operators`",
     "models/compute.md#launches-of-a-layer"},
    {"launch", "host time per operator; 0: the device's", ""},
    {"collective_launches", "operators of a tensor-parallel collective; 0: one, and the wait for the other hosts", ""},
    {"synchronous_launches", "times of host and device add up instead of overlapping", ""},
    {"blocking_transfers", "a rank waits for its own pipeline sends", "models/collectives.md"},
    {"splits_first_backward", "`false`: the first stage hands on no gradient, so its I does nothing and its W is a backward",
     "models/lowering.md"},
    {"hand_over_buffers", "for each neighbour one to receive into and one to send from, or the messages that wait for one pass",
     "models/memory.md"},
    {"gradient_storage",
     "gradients are summed and reduced where they were allocated once, or as autograd leaves them, copied into buckets",
     "models/memory.md"},
    {"scatter_gather", "a hand-over is divided among the tensor-parallel ranks and gathered at the receiver",
     "models/collectives.md"},
    {"distributed_optimizer", "the replicas divide the optimizer's state", "models/memory-terms.md"},
    {"overlap_tensor_collectives", "a full backward hides the input gradient's collective behind the weight gradient",
     "models/collectives.md"},
    {"tensor_chunks",
     "parts in which gathers and scatters of sequence parallelism overlap their products; 1: whole, 0: a part per rank",
     "models/lowering.md"},
    {"expert_dispatch",
     "each token goes to the devices of its experts, a copy each, or one copy to each node and from there (DeepEP)",
     "models/expert-parallelism.md"},
    {"residual_before_reduction", "each tensor-parallel rank adds its part of the residual before the all-reduce", ""},
    {"gradient_bucket", "bytes of a bucket of gradients", "models/lowering.md"},
    {"gradient_bucket_elements", "elements of a bucket, instead of its bytes", "models/lowering.md"},
    {"gradient_bucket_elements_per_copy", "at least so many elements of a bucket per replica", "models/lowering.md"},
    {"awaited_buckets", "gradients that are reduced after the backward also go in these buckets", ""},
    {"overlap_all_reduce", "all-reduces of gradients overlap the last backward, without ZeRO", "models/lowering.md"},
    {"overlap_reduce_scatter", "reduce-scatters overlap the last backward, under ZeRO 1", "models/lowering.md"},
    {"overlap_parameter_gather", "gathers overlap the next step's first forwards, under ZeRO 1 and 2", "models/lowering.md"},
    {"gather_prefetch", "ZeRO 3: blocks requested ahead of the running one", "models/lowering.md"},
    {"gathers_in_flight", "ZeRO 3: blocks whole at the same time, at least one", "models/lowering.md"},
    {"gradient_bytes", "bytes of a gradient; 0: by precision", "models/memory-terms.md"},
    {"bf16_extra_gradient_bytes", "bytes per parameter kept in addition under bf16", "models/memory-terms.md"},
    {"keep_gathered_inputs", "sequence parallelism: products keep the gathered input instead of their shard",
     "models/memory-terms.md"},
    {"replicated_saved_factor", "activations kept over those that operators read again, outside the parallel region",
     "models/memory-terms.md"},
    {"sharded_saved_factor", "the same inside the parallel region", "models/memory-terms.md"},
    {"released_by_input_gradient", "share of a unit's activations that I frees; -1: all that W does not read",
     "models/memory-terms.md"},
    {"loss_live_bytes_per_logit", "logits, their fp32 copy and their gradient while the loss runs", "models/memory-terms.md"},
    {"allocator_factor", "fragmentation", "models/memory-terms.md"},
    {"context", "memory of the CUDA context, NCCL and workspaces", "models/memory-terms.md"},
};

}  // namespace

Key framework_key() {
  Framework initial;
  KeyLister lister;
  read_keys(lister, initial);
  for (Key& key : lister.keys) {
    for (const Meaning& row : kMeanings)
      if (row.key == key.name) {
        key.meaning = row.meaning;
        key.page = row.page;
      }
    // Keys that change the job, which only some trainers can express; the others describe how a framework runs it.
    if (key.name == "expert_dispatch" || key.name.starts_with("fp8_")) {
      key.exports = InExports::Reported;
      key.fallback = key.words.empty() ? key.example : key.words.front();
    }
  }
  lister.keys.insert(lister.keys.begin(),
                     {.name = "name", .forms = {form::shipped()}, .meaning = "the preset whose keys the others replace"});
  return {.name = "framework",
          .forms = {form::shipped()},
          .keys = std::move(lister.keys),
          .otherwise = "by the model's kind; none for clusters in place",
          .meaning = "preset of the training framework's behaviour, or a map that changes single keys of one",
          .page = "models/compute.md#a-framework-is-a-list-of-choices",
          .exports = InExports::Apart};
}

Framework load_framework(const std::string& name_or_path, const std::string& directory) {
  SourcedFile file("framework", name_or_path, directory);
  Framework f;
  f.name = file.name();
  read_keys(file, f);
  f.sources = file.finish();
  return f;
}

Execution executors_choices() { return load_framework("panpipe", ""); }

Framework read_framework_choices(const Node& node, const std::string& otherwise, ReadLog& log) {
  MapReader map(node, log);
  const std::string name = map.string("name", otherwise);
  Framework f = load_framework(name, map.has("name") ? node.source->directory : "");
  // Factors that were fitted and launches that were counted belong to the kernels they were found with.
  if (map.has("elementwise")) {
    f.elementwise_factor = 1;
    f.replicated_factor = 0;
    f.forward_operators = f.backward_operators = 0;
  }
  ChoicesReader choices(map);
  read_keys(choices, f);
  for (const Node::Entry& entry : node.entries)
    if (entry.key != "name") f.changed += (f.changed.empty() ? "" : ", ") + entry.key + ": " + entry.value->text;
  map.finish();
  return f;
}

}  // namespace panpipe
