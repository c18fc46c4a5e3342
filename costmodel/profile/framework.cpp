#include "costmodel/profile/framework.hpp"

#include <fmt/format.h>

#include <utility>

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

}  // namespace

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
