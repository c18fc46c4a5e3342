#include "costmodel/profile/framework.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/input/bound_key.hpp"
#include "costmodel/profile/recipe.hpp"
#include "costmodel/profile/sourced_file.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

// The most bytes that a logit holds while its loss runs, in 2-byte formats. eager: cross_entropy(logits.float()) has log-softmax,
// its gradient and the loss's in fp32 (validation/memory). vocabulary-parallel: Megatron's logits, and a copy in fp32 in which
// the softmax and its gradient replace them (megatron/core/tensor_parallel/cross_entropy.py). compiled: the logits, from which
// TorchInductor's backward makes the softmax again, and their gradient. fused: the same in flash-attention's kernel
// (flash_attn/ops/triton/cross_entropy.py). chunked: of so many chunks as are not known (estimate).
struct NamedLoss {
  std::string_view name;
  LossKernels kernels;
  double live;
};
constexpr NamedLoss kLosses[] = {
    {"eager", {44}, 12}, {"vocabulary-parallel", {52}, 6}, {"compiled", {24}, 4}, {"fused", {8}, 4}, {"chunked", {74, true}, 2}};

const Choices<LossKernels>& losses() {
  static const Choices<LossKernels> all = [] {
    Choices<LossKernels> made;
    for (const NamedLoss& loss : kLosses) made.emplace_back(loss.name, loss.kernels);
    return made;
  }();
  return all;
}

const Choices<Fp8Scaling>& fp8_scalings() {
  static const Choices<Fp8Scaling> all = [] {
    Choices<Fp8Scaling> made;
    for (const Recipe& recipe : recipes())
      if (recipe.precision == Precision::Fp8) made.emplace_back(name_of(recipe.scaling), recipe.scaling);
    return made;
  }();
  return all;
}

double live_bytes(const LossKernels& kernels) {
  for (const NamedLoss& loss : kLosses)
    if (loss.kernels == kernels) return loss.live;
  return kLosses[0].live;
}

template <class T, class M>
BoundKey<Framework> words(M T::*member, const Choices<M>& choices, const char* name, std::string_view meaning,
                          std::string_view page = {}) {
  return bound_if_stated(static_cast<M Framework::*>(member), choices, name, meaning, Otherwise{"the preset's"}, Page{page});
}
template <class T, class M, class... Parts>
BoundKey<Framework> number(M T::*member, const char* name, std::string_view meaning, std::string_view page = {},
                           const Parts&... parts) {
  Key key = declare(name, meaning, Otherwise{"the preset's"}, Page{page}, parts...);
  if (key.forms.empty()) key.forms = {bound_keys::form_of<M>()};
  if (key.example.empty()) key.example = bound_keys::text_of(Framework{}.*member, key);
  return bound_keys::scalar(static_cast<M Framework::*>(member), std::move(key), true);
}
// Keys that change the job, which only some trainers can express; the others describe how a framework runs it.
BoundKey<Framework> reported(const char* fallback, BoundKey<Framework> row) {
  row.fallback = fallback;
  row.exports = InExports::Reported;
  return row;
}

const std::vector<BoundKey<Framework>>& framework_rows() {
  constexpr std::string_view memory = "models/memory-terms.md", lowering = "models/lowering.md",
                             collectives = "models/collectives.md", launches = "models/compute.md#launches-of-a-layer",
                             experts = "models/expert-parallelism.md#host", recipes = "models/recipes.md";
  static const std::vector<BoundKey<Framework>> all = {
      number(&Framework::software, "software", "the year of the CUDA libraries; 0: the newest",
             "models/compute.md#the-generation-of-software", Example{"2024"}),
      words(&Framework::attention, attention_kernels(), "attention", "the kernels of attention",
            "models/compute.md#a-framework-is-a-list-of-choices"),
      words(&Framework::elementwise,
            {{"fused", Elementwise::Fused}, {"compiled", Elementwise::Compiled}, {"eager", Elementwise::Eager}}, "elementwise",
            "element-wise operators as fused chains, as a compiler fuses them, or a kernel each"),
      words(&Framework::normalization,
            {{"kernel", NormalizationKernel::Kernel},
             {"operators", NormalizationKernel::Operators},
             {"modules", NormalizationKernel::Modules}},
            "normalization", "a normalization as one kernel, as a chain of operators, or as in `torch.nn`"),
      words(&Framework::activation, {{"kernel", ActivationKernel::Kernel}, {"operators", ActivationKernel::Operators}},
            "activation", "GELU as one kernel or as the operators of its tanh form"),
      number(&Framework::autocast, "autocast", "weights in fp32, cast for each product; residuals and normalizations in fp32"),
      words(&Framework::gradient_accumulation,
            {{"fused", GradientAccumulation::Fused},
             {"fp32", GradientAccumulation::Fp32},
             {"autograd", GradientAccumulation::Autograd},
             {"buffer", GradientAccumulation::Buffer},
             {"flat", GradientAccumulation::Flat}},
            "gradient_accumulation", "how a microbatch's weight gradient is added to the others'"),
      words(&Framework::optimizer_kernel,
            {{"fused", OptimizerKernel::Fused},
             {"foreach", OptimizerKernel::Foreach},
             {"loop", OptimizerKernel::Loop},
             {"groups", OptimizerKernel::Groups},
             {"apex", OptimizerKernel::Fused}},
            "optimizer_kernel",
            "one kernel for many parameters, one per operation, or one per operation and parameter; `groups`: the first, over "
            "gradients that DeepSpeed's ZeRO casts to fp32 in groups"),
      words(&Framework::gradient_clipping,
            {{"none", GradientClipping::None}, {"foreach", GradientClipping::Foreach}, {"loop", GradientClipping::Loop}},
            "gradient_clipping", "kernels that clip gradients to a norm"),
      number(&Framework::zero_gradients, "zero_gradients", "gradients are set to zero, a kernel per parameter, instead of freed"),
      number(&Framework::gradient_scaler, "gradient_scaler",
             "fp16: gradients are divided by the loss's scale and checked for infinities"),
      reported("delayed",
               words(&Framework::fp8_scaling, fp8_scalings(), "fp8_scaling",
                     "scales of `precision: fp8`: of a tensor, from earlier steps or itself; of blocks of 128; of rows, "
                     "also with weight gradients in bf16",
                     recipes)),
      reported("false", number(&Framework::single_weight_cast, "single_weight_cast",
                               "weights in 8 bits are kept in one direction, and turned where products read the other", recipes)),
      reported("false",
               number(&Framework::fp8_parameters, "fp8_parameters",
                      "weights of products in 8 or 4 bits are kept and gathered so, without a copy in 2 bytes", recipes)),
      reported("0", number(&Framework::bf16_first, "bf16_first",
                           "first blocks of the model whose products stay in bf16 (`fp8` and narrower)", recipes)),
      reported("0", number(&Framework::bf16_last, "bf16_last", "the same of its last blocks", recipes)),
      words(&Framework::loss, losses(), "loss", "the kernels of the loss"),
      number(&Framework::training_metrics, "training_metrics", "further cross entropies computed for the log, forward only"),
      number(&Framework::dropout, "dropout", "trains with dropout: masks are written, read and kept even if the graph has none"),
      number(&Execution::blocking_transfers, "blocking_transfers", "a rank waits for its own pipeline sends", collectives),
      number(&Execution::splits_first_backward, "splits_first_backward",
             "`false`: the first stage hands on no gradient, so its I does nothing and its W is a backward", lowering),
      number(&Execution::tensor_chunks, "tensor_chunks",
             "parts in which gathers and scatters of sequence parallelism overlap their products; 1: whole, 0: a part per rank",
             lowering),
      number(&Execution::gradient_bucket, "gradient_bucket", "bytes of a bucket of gradients", lowering),
      number(&Execution::gradient_bucket_elements, "gradient_bucket_elements", "elements of a bucket, instead of its bytes",
             lowering),
      number(&Execution::gradient_bucket_elements_per_copy, "gradient_bucket_elements_per_copy",
             "at least so many elements of a bucket per replica", lowering),
      number(&Execution::awaited_buckets, "awaited_buckets",
             "gradients that are reduced after the backward also go in these buckets"),
      number(&Execution::overlap_all_reduce, "overlap_all_reduce",
             "all-reduces of gradients overlap the last backward, without ZeRO", lowering),
      number(&Execution::overlap_reduce_scatter, "overlap_reduce_scatter",
             "reduce-scatters overlap the last backward, under ZeRO 1", lowering),
      number(&Execution::overlap_parameter_gather, "overlap_parameter_gather",
             "gathers overlap the next step's first forwards, under ZeRO 1 and 2", lowering),
      words(&Execution::hand_over_buffers, {{"neighbours", HandOverBuffers::Neighbours}, {"waiting", HandOverBuffers::Waiting}},
            "hand_over_buffers",
            "for each neighbour one to receive into and one to send from, or the messages that wait for one pass",
            "models/memory.md"),
      words(
          &Execution::gradient_storage,
          {{"kept", GradientStorage::Kept},
           {"autograd", GradientStorage::Autograd},
           {"set-to-none", GradientStorage::SetToNone},
           {"unsharded", GradientStorage::Unsharded}},
          "gradient_storage",
          "gradients are summed and reduced where they were allocated once, or as autograd leaves them, copied into buckets; or "
          "freed behind each step; or so, and under ZeRO 2 and 3 whole until the last microbatch is reduced",
          "models/memory.md"),
      reported("master-copy",
               words(&Framework::mixed_precision,
                     {{"master-copy", MixedPrecision::MasterCopy},
                      {"autocast", MixedPrecision::Autocast},
                      {"sharded", MixedPrecision::Sharded}},
                     "mixed_precision",
                     "where the fp32 weights are: beside 2-byte weights; as the weights, copied for products; as FSDP's shards",
                     "models/memory.md")),
      reported("false", number(&Framework::joins_pipeline_outputs, "joins_pipeline_outputs",
                               "the last stage keeps the results of all microbatches and joins them", "models/memory.md")),
      number(&Framework::elementwise_factor, "elementwise_factor",
             "traffic of element-wise operators over the counted kernels; only a fit can give it"),
      number(
          &Framework::replicated_factor, "replicated_factor",
          "the same for normalizations and residual sums, which tensor parallelism does not divide; 0: as `elementwise_factor`"),
      number(&Framework::score_factor, "score_factor", "factor on the traffic of unfused attention scores"),
      number(&Framework::optimizer_factor, "optimizer_factor", "traffic of the optimizer step over one fused kernel"),
      number(&Framework::forward_operators, "forward_operators",
             "host launches of a layer's forward, instead of the count; with `backward_operators`", launches),
      number(&Framework::backward_operators, "backward_operators",
             "host launches of a layer's backward, instead of the count; with `forward_operators`", launches),
      number(&Framework::expert_forward_operators, "expert_forward_operators",
             "launches of routing, dispatch and combination in a forward, in addition to `forward_operators`", experts),
      number(&Framework::expert_backward_operators, "expert_backward_operators",
             "the same in a backward, in addition to `backward_operators`", experts),
      reported(
          "grouped",
          words(&Framework::expert_products,
                {{"grouped", ExpertProducts::Grouped}, {"each", ExpertProducts::Each}, {"loop", ExpertProducts::Loop}},
                "expert_products",
                "experts of a rank: one kernel for all, one for each, or a loop that runs one expert after another", experts)),
      reported(
          "device",
          words(&Framework::expert_counts,
                {{"device", ExpertCounts::Device}, {"host", ExpertCounts::Host}, {"each", ExpertCounts::Each}}, "expert_counts",
                "rows of each expert are known to the device alone, or the host waits to read them: once, or for `each` expert",
                experts)),
      number(&Framework::expert_launch, "expert_launch",
             "host time of a product of `expert_products: each`, which a loop in C++ launches; 0: as `launch`", experts),
      number(&Framework::expert_weight_hook, "expert_weight_hook",
             "the same behind each of its weight gradients, where every expert's weight is a parameter with hooks", experts),
      number(&Framework::launch, "launch",
             "host time per operator: of a preset, relative to others; 0: 32.9 us. Stated in a scenario it holds as it is"),
      number(&Framework::sharded_launch, "sharded_launch",
             "the same under ZeRO 3, where hooks of every module fetch and release parameters; 0: as `launch`", launches),
      number(&Framework::collective_launches, "collective_launches",
             "operators of a tensor-parallel collective; 0: one, and the wait for the other hosts"),
      number(&Framework::synchronous_launches, "synchronous_launches", "times of host and device add up instead of overlapping"),
      number(&Framework::scatter_gather, "scatter_gather",
             "a hand-over is divided among the tensor-parallel ranks and gathered at the receiver", collectives),
      number(&Framework::distributed_optimizer, "distributed_optimizer", "the replicas divide the optimizer's state", memory),
      number(&Framework::overlap_tensor_collectives, "overlap_tensor_collectives",
             "a full backward hides the input gradient's collective behind the weight gradient", collectives),
      reported(
          "model",
          words(&Framework::expert_dispatch,
                {{"model", ExpertDispatch::ByModel},
                 {"rows", ExpertDispatch::Rows},
                 {"nodes", ExpertDispatch::Nodes},
                 {"low-latency", ExpertDispatch::LowLatency}},
                "expert_dispatch",
                "each token goes to the devices of its experts, a copy each (`rows`; `low-latency`: by one kernel, to all at "
                "once), or one copy to each node and from there (`nodes`, DeepEP); `model`: `nodes` where routing is limited to "
                "groups of experts",
                "models/expert-parallelism.md")),
      reported("none", words(&Framework::cuda_graphs,
                             {{"none", CudaGraphs::None}, {"layers", CudaGraphs::Layers}, {"full", CudaGraphs::Full}},
                             "cuda_graphs", "what the host launches at once: each part of a layer, or all passes of a step",
                             "models/compute.md#cuda-graphs")),
      words(&Framework::tensor_inputs, {{"shared", TensorInputs::Shared}, {"each", TensorInputs::Each}}, "tensor_inputs",
            "products over tensor ranks that read one input share its gather and its gradient's sum, or `each` has its own",
            "models/compute.md#a-framework-is-a-list-of-choices"),
      number(&Framework::residual_before_reduction, "residual_before_reduction",
             "each tensor-parallel rank adds its part of the residual before the all-reduce"),
      number(&Framework::gather_prefetch, "gather_prefetch", "ZeRO 3: blocks requested ahead of the running one", lowering),
      number(&Framework::gathers_in_flight, "gathers_in_flight", "ZeRO 3: blocks whole at the same time, at least one", lowering),
      number(&Framework::gradient_bytes, "gradient_bytes", "bytes of a gradient; 0: by precision", memory),
      number(&Framework::bf16_extra_gradient_bytes, "bf16_extra_gradient_bytes",
             "bytes per parameter kept in addition under bf16", memory),
      number(&Framework::keep_gathered_inputs, "keep_gathered_inputs",
             "sequence parallelism: products keep the gathered input instead of their shard", memory),
      number(&Framework::replicated_saved_factor, "replicated_saved_factor",
             "activations kept over those that operators read again, outside the parallel region", memory),
      number(&Framework::sharded_saved_factor, "sharded_saved_factor", "the same inside the parallel region", memory),
      number(&Framework::released_by_input_gradient, "released_by_input_gradient",
             "share of a unit's activations that I frees; -1: all that W does not read", memory, Example{"0.5"}),
      number(&Framework::loss_live_bytes_per_logit, "loss_live_bytes_per_logit",
             "logits, their fp32 copy and their gradient while the loss runs; by default those of `loss`", memory),
      reported("factor",
               words(&Framework::allocator,
                     {{"factor", AllocatorModel::Factor},
                      {"caching", AllocatorModel::Caching},
                      {"expandable-segments", AllocatorModel::Expandable}},
                     "allocator",
                     "reserved memory by `allocator_factor`, by the rules of PyTorch's caching allocator, or by these with "
                     "`expandable_segments`",
                     "models/memory.md#reserved-memory")),
      number(&Framework::allocator_factor, "allocator_factor", "fragmentation", memory, form::number(Sign::Positive)),
      number(&Framework::context, "context", "memory of the CUDA context, NCCL and workspaces", memory)};
  return all;
}

void check_framework(MapReader& reader, const Framework& f) {
  const auto error = [&](const char* key, const std::string& message, const std::string& help) {
    reader.log().error_at_key(reader.node(), key, message, help);
  };
  if ((f.forward_operators > 0) != (f.backward_operators > 0)) {
    const bool forward = f.forward_operators > 0;
    error(reader.has("forward_operators") && (forward || !reader.has("backward_operators")) ? "forward_operators"
                                                                                            : "backward_operators",
          fmt::format("forward_operators is {} and backward_operators {}: one of the passes would launch nothing",
                      f.forward_operators, f.backward_operators),
          "state both, or neither: then they are counted from the operators");
  }
  if (f.gathers_in_flight < 1)
    error("gathers_in_flight", "no block could be whole, so that none could run", "at least 1; FSDP holds 2");
}

}  // namespace

Key framework_key() {
  std::vector<Key> keys = {declare("name", "the preset whose keys the others replace", form::shipped())};
  keys.insert(keys.end(), framework_rows().begin(), framework_rows().end());
  return declare("framework", "preset of the training framework's behaviour, or a map that changes single keys of one",
                 form::shipped(), Inside{std::move(keys)}, Otherwise{"by the model's kind; none for clusters in place"},
                 Page{"models/compute.md#a-framework-is-a-list-of-choices"}, InExports::Apart);
}

namespace {

// What a preset does not state is its base's, which has no base itself: so two are all that one has to read.
Framework load_preset(const std::string& name_or_path, const std::string& directory, bool is_base) {
  SourcedFile file("framework", name_or_path, directory);
  MapReader& reader = file.reader();
  Framework f;
  f.loss_live_bytes_per_logit = -1;
  if (const Node* base = reader.find("base"); base != nullptr && is_base)
    reader.log().error(*base, "this preset is the base of another, and such a one has no base itself");
  else if (base != nullptr)
    try {
      f = load_preset(base->text, base->source->directory, true);
    } catch (const InputError& error) {
      reader.log().add_at(*base, error);
    }
  f.name = file.name();
  file.read(framework_rows(), f);
  // By the loss of the whole preset: a base's own may be another.
  if (!is_base && f.loss_live_bytes_per_logit < 0) f.loss_live_bytes_per_logit = live_bytes(f.loss);
  check_framework(reader, f);
  for (const auto& [key, source] : file.finish()) f.sources[key] = source;
  return f;
}

}  // namespace

Framework load_framework(const std::string& name_or_path, const std::string& directory) {
  return load_preset(name_or_path, directory, false);
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
  read_keys(map, framework_rows(), f);
  if (map.has("loss") && !map.has("loss_live_bytes_per_logit")) f.loss_live_bytes_per_logit = live_bytes(f.loss);
  if (map.has("allocator_factor") && !map.has("allocator")) f.allocator = AllocatorModel::Factor;
  check_framework(map, f);
  for (const Node::Entry& entry : node.entries) f.sources.erase(entry.key);  // the preset's, of numbers that it does not give
  for (const Node::Entry& entry : node.entries)
    if (entry.key != "name") f.changed += (f.changed.empty() ? "" : ", ") + entry.key + ": " + entry.value->text;
  map.finish();
  return f;
}

}  // namespace panpipe
