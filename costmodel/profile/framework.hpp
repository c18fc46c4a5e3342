// The training framework's influence on a step: choices visible in a training script, and a few numbers. Each framework has a
// file under scenarios/frameworks/. Effects of each choice: docs/models/compute.md.
#pragma once

#include <map>
#include <string>

#include "base/input/reader.hpp"
#include "base/quantity.hpp"
#include "costmodel/profile/attention_kernel.hpp"

namespace panpipe {

// Element-wise operators run as hand-fused chains, as chains that a compiler fuses with normalizations, or one kernel per
// operator.
enum class Elementwise : std::uint8_t { Fused, Compiled, Eager };
// A normalization is one kernel, or a chain of fp32 operators as in models written in Python. Modules: as in torch.nn, where
// LayerNorm is a kernel and RMSNorm a chain of operators.
enum class NormalizationKernel : std::uint8_t { Kernel, Operators, Modules };
// GELU is one kernel, or the operators of its tanh form (transformers' gelu_new).
enum class ActivationKernel : std::uint8_t { Kernel, Operators };
// How a microbatch's weight gradient is accumulated. Fused: by the product that makes it. Fp32, Buffer: by a kernel into a sum in
// fp32, or in the format in which gradients travel. Flat: into FSDP's flat parameter, which is cast and divided for the
// reduction. Autograd: by one kernel for each parameter and microbatch after the first.
enum class GradientAccumulation : std::uint8_t { Fused, Fp32, Buffer, Flat, Autograd };
// One kernel for many parameters; one per operation for many parameters; one per operation and parameter. Groups: one kernel for
// each group of elements, whose gradients are laid out in one tensor and cast to fp32 first (DeepSpeed's ZeRO).
enum class OptimizerKernel : std::uint8_t { Fused, Foreach, Loop, Groups };
// Tokens are sent row by row to their experts, or once to each node with one of a token's experts and from there to its devices
// (DeepEP, Megatron's flex dispatcher). ByModel: the latter where a token's experts are limited to groups of experts, which
// DeepSeek did for this way (arXiv 2412.19437, section 2.1.2). LowLatency: row by row, by one kernel that
// writes to all peers at once into buffers of a fixed size (DeepEP's low-latency kernels).
enum class ExpertDispatch : std::uint8_t { ByModel, Rows, Nodes, LowLatency };
// What the host launches as one CUDA graph: nothing, each part of a layer, or all passes of a step.
enum class CudaGraphs : std::uint8_t { None, Layers, Full };
// Products of a rank's experts: one kernel for all of them; one for each, launched together (Transformer Engine's GroupedLinear);
// or everything between dispatch and combination once for each expert, one after another (a loop in Python).
enum class ExpertProducts : std::uint8_t { Grouped, Each, Loop };
// Where the numbers of rows for each expert are known: on the device alone; or read back by the host, which waits for them, once
// for all experts or for each one's before it launches what that one does.
enum class ExpertCounts : std::uint8_t { Device, Host, Each };
// Products over tensor ranks that read one input (query, key and value; gate and up) share the collective that brings it and the
// one that sums its gradient, or each has its own (DTensor's ColwiseParallel without a PrepareModuleInput above it).
enum class TensorInputs : std::uint8_t { Shared, Each };
enum class GradientClipping : std::uint8_t { None, Foreach, Loop };

// The scales of fp8 (costmodel/profile/recipe.hpp): of a tensor, from its largest number in earlier steps or now; of blocks of
// 128 elements, and 128 x 128 of a weight; of rows. RowsExceptWeights: of rows, with weight gradients in bf16.
enum class Fp8Scaling : std::uint8_t { Delayed, Current, Blocks, Rows, RowsExceptWeights };

struct LossKernels {
  double bytes_per_logit = 52;  // traffic, forward and backward together (docs/models/compute.md has the counts)
  bool in_chunks = false;       // the backward recomputes the logits of each chunk
  bool operator==(const LossKernels&) const = default;
};

// Buffers of hand-overs: for each neighbour one to receive into and one to send from, or the messages that wait for one pass.
enum class HandOverBuffers : std::uint8_t { Neighbours, Waiting };
// Gradients are summed and reduced where they were allocated once, or as autograd leaves them: allocated by a step's first
// backward, made before they are added to the sum, and copied into buckets to be reduced (in one precision throughout).
// SetToNone: so in every precision, and freed behind each step (`zero_grad(set_to_none=True)`); DistributedDataParallel's buckets
// are copies that stay. Unsharded: the same, and FSDP (ZeRO 2 and 3) reduces only behind a step's last microbatch, so that until
// then each rank holds the sum of whole gradients (`no_sync`, `set_requires_gradient_sync(False)`).
enum class GradientStorage : std::uint8_t { Kept, Autograd, SetToNone, Unsharded };

// Where the fp32 weights of mixed precision are. MasterCopy: in the optimizer, next to weights in 2 bytes. Autocast: they are the
// weights, and each product keeps a 2-byte copy from the forward to its backward. Sharded: they are FSDP's shards, gathered in
// 2 bytes.
enum class MixedPrecision : std::uint8_t { MasterCopy, Autocast, Sharded };

// The choices that a program makes whatever kernels it runs. Panpipe's executor makes its own, in the preset `panpipe`.
struct Execution {
  bool blocking_transfers = true;     // a rank waits for its own pipeline sends
  bool splits_first_backward = true;  // false: the first stage, which hands on no gradient, has no I, and its W is a backward
  // Sequence parallelism: number of chunks into which its gathers and reduce-scatters and the adjacent products are cut, to
  // overlap them. 1: not cut; 0: one chunk per rank of the group.
  int tensor_chunks = 1;
  // Size of the buckets of gradients that are reduced during the backward. If elements are given they replace the bytes, with the
  // per-replica number as a minimum.
  Bytes gradient_bucket = mib(25);
  double gradient_bucket_elements = 0;
  double gradient_bucket_elements_per_copy = 0;
  bool awaited_buckets = false;  // gradients reduced after the backward are also sent in buckets, one after another
  // Overlap with the last backward: all-reduces of gradients without ZeRO, reduce-scatters under ZeRO 1. Overlap with the next
  // step's first forwards: gathers of the parameters that ZeRO 1 and 2 have updated, block by block.
  bool overlap_all_reduce = false, overlap_reduce_scatter = false, overlap_parameter_gather = false;
  HandOverBuffers hand_over_buffers = HandOverBuffers::Neighbours;
  GradientStorage gradient_storage = GradientStorage::Kept;
};

// What PyTorch's caching allocator adds to tensors. Factor: `allocator_factor`. Caching, Expandable: its own rules, replayed over
// the step's allocations; Expandable with expandable_segments:True.
enum class AllocatorModel : std::uint8_t { Factor, Caching, Expandable };

struct Framework : Execution {
  std::string name = "megatron";
  std::string changed;  // "attention: unfused": the choices that a scenario states in addition to the name
  int software = 0;     // year of the CUDA libraries that it runs with; 0: the newest
  // Choices.
  AttentionKernel attention = AttentionKernel::FusedSoftmax;
  Elementwise elementwise = Elementwise::Fused;
  NormalizationKernel normalization = NormalizationKernel::Kernel;
  ActivationKernel activation = ActivationKernel::Kernel;
  bool autocast = false;  // weights in fp32, cast for each product; residuals and normalizations in fp32 (mixed precision only)
  GradientAccumulation gradient_accumulation = GradientAccumulation::Fused;
  OptimizerKernel optimizer_kernel = OptimizerKernel::Fused;
  GradientClipping gradient_clipping = GradientClipping::None;  // clipping to a norm: gradients are read, then read and written
  bool zero_gradients = false;  // gradients are set to zero, one kernel per parameter, instead of freed
  Fp8Scaling fp8_scaling = Fp8Scaling::Delayed;
  bool single_weight_cast = false;    // weights in 8 bits are kept in one direction, and turned where products read the other
  bool fp8_parameters = false;        // weights of products in 8 or 4 bits are kept and gathered so, without a copy in 2 bytes
  int bf16_first = 0, bf16_last = 0;  // first and last blocks of a model whose products stay in bf16
  bool gradient_scaler = false;       // fp16: gradients are divided by the loss's scale and checked for infinities
  // Device time.
  double elementwise_factor = 1.0;  // traffic of element-wise operators relative to fully fused kernels
  double replicated_factor =
      0;  // the same for normalizations and residual sums, which every tensor-parallel rank repeats; 0 = elementwise_factor
  double score_factor = 1.0;    // factor on the traffic of unfused attention scores
  LossKernels loss;             // vocabulary-parallel
  int training_metrics = 0;     // additional cross entropies computed for the log, forward only
  bool dropout = true;          // trains with dropout: masks are written, read and kept even if the graph has none
  double optimizer_factor = 1;  // traffic of the optimizer step relative to one fused kernel
  // Host.
  // Host launches per transformer layer; 0 = counted from its operators and the choices.
  int forward_operators = 0, backward_operators = 0;
  Duration launch{0};          // host time per operator; 0 = from the device's calibration
  Duration sharded_launch{0};  // the same under ZeRO 3, with the hooks of its modules; 0 = launch
  // The same of routing, dispatch and combination in a layer with experts, in addition, where a layer's are stated.
  int expert_forward_operators = 0, expert_backward_operators = 0;
  ExpertProducts expert_products = ExpertProducts::Grouped;
  ExpertCounts expert_counts = ExpertCounts::Device;
  Duration expert_launch{0};          // host time of one expert's product that a loop in C++ launches; 0 = launch
  Duration expert_weight_hook{0};     // host time behind each expert's weight gradient, for hooks of its parameter
  int collective_launches = 0;        // operators per tensor-parallel collective; 0 = one, and its wait for the other hosts
  bool synchronous_launches = false;  // host and device times add up instead of overlapping
  // Communication.
  bool scatter_gather = true;  // a hand-over is divided among the tensor-parallel ranks and gathered at the receiver
  bool distributed_optimizer = false;
  bool overlap_tensor_collectives = false;  // a full backward hides the input gradient's collective behind the weight gradient
  ExpertDispatch expert_dispatch = ExpertDispatch::ByModel;
  CudaGraphs cuda_graphs = CudaGraphs::None;
  TensorInputs tensor_inputs = TensorInputs::Shared;
  bool residual_before_reduction = false;  // each tensor-parallel rank adds its part of the residual before the all-reduce
  // ZeRO 3: how many blocks ahead parameters are requested, and how many blocks may be whole at once.
  int gather_prefetch = 1, gathers_in_flight = 2;
  // Memory.
  MixedPrecision mixed_precision = MixedPrecision::MasterCopy;
  bool joins_pipeline_outputs = false;  // the last stage keeps the results of all microbatches, and joins them at the end
  int gradient_bytes = 0;               // per parameter; 0 = by precision
  int bf16_extra_gradient_bytes = 0;    // kept in addition under bf16 (an accumulation copy)
  bool keep_gathered_inputs = false;    // sequence parallelism: products keep the gathered input instead of their shard of it
  double replicated_saved_factor =
      1;                            // activations kept relative to those that operators read again, outside the parallel region
  double sharded_saved_factor = 1;  // the same inside it (copies in fp32 or in another layout)
  double released_by_input_gradient = -1;  // share of a unit's activations that I frees; -1 = all that W does not read
  double loss_live_bytes_per_logit = 10;   // logits, their fp32 copy and their gradient while the loss runs
  AllocatorModel allocator = AllocatorModel::Factor;
  double allocator_factor = 1.04;              // fragmentation; with a replay what searches take before it
  Bytes context = gib(1);                      // CUDA context, NCCL, workspaces
  std::map<std::string, std::string> sources;  // key -> the number's source

  // "megatron", "torch-compile (attention: unfused)".
  std::string title() const { return changed.empty() ? name : name + " (" + changed + ")"; }
};

// `name_or_path` is a shipped preset ("megatron"), or a file, relative to `directory` or to the data folder. Throws InputError
// for an unknown preset (listing the shipped ones) and for faults in the file.
Framework load_framework(const std::string& name_or_path, const std::string& directory);

// Reads `framework: {name: torch-compile, attention: unfused}`: a preset or file with single keys changed. Uses the preset
// `otherwise` if no name is given. `node` must be a map. Faults in it are logged; faults in the file throw InputError.
Framework read_framework_choices(const Node& node, const std::string& otherwise, ReadLog& log);
// The declared keys of `framework:`.
Key framework_key();

// The choices of Panpipe's executor: those of the preset `panpipe`.
Execution executors_choices();

}  // namespace panpipe
