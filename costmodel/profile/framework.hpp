// What the training framework does that the hardware does not say: choices that a training script shows, and a few numbers; a
// file each under scenarios/frameworks/. What each choice counts: docs/models/compute.md.
#pragma once

#include <map>
#include <string>

#include "base/input/reader.hpp"
#include "base/quantity.hpp"
#include "costmodel/profile/attention_kernel.hpp"

namespace panpipe {

// Kernels of element-wise operators: hand-fused chains, chains that a compiler fuses with normalizations, a kernel per operator.
enum class Elementwise : std::uint8_t { Fused, Compiled, Eager };
// A normalization: one kernel, or a chain of operators in fp32 as models written in Python have it. Modules: as torch.nn has
// them, LayerNorm a kernel and RMSNorm operators.
enum class NormalizationKernel : std::uint8_t { Kernel, Operators, Modules };
// GELU: one kernel, or the operators of its tanh form (transformers' gelu_new).
enum class ActivationKernel : std::uint8_t { Kernel, Operators };
// Where a microbatch's weight gradient goes: added by the product that makes it; by a kernel to a sum in fp32, or to one in the
// format in which gradients travel; into FSDP's flat parameter, which is cast and divided for the reduction; or by autograd, a
// kernel for each parameter and microbatch after the first.
enum class GradientAccumulation : std::uint8_t { Fused, Fp32, Buffer, Flat, Autograd };
// One kernel for many parameters; a kernel an operation, each for many parameters; a kernel an operation and parameter.
enum class OptimizerKernel : std::uint8_t { Fused, Foreach, Loop };
// Tokens go to their experts row by row; or once to each node that has one of a token's experts, and from there to its devices
// (DeepEP, Megatron's flex dispatcher).
enum class ExpertDispatch : std::uint8_t { Rows, Nodes };
enum class GradientClipping : std::uint8_t { None, Foreach, Loop };

// How products in 8 bits get their scale: from the largest number of former steps, or of the tensor itself, which is read once
// more.
enum class Fp8Scaling : std::uint8_t { Delayed, Current };

struct Framework {
  std::string name = "megatron";
  std::string changed;  // "attention: unfused": the choices that a scenario states besides the name
  // Choices.
  AttentionKernel attention = AttentionKernel::FusedSoftmax;
  Elementwise elementwise = Elementwise::Fused;
  NormalizationKernel normalization = NormalizationKernel::Kernel;
  ActivationKernel activation = ActivationKernel::Kernel;
  bool autocast = false;  // weights in fp32, cast for each product; residuals and normalizations in fp32 (mixed precision only)
  GradientAccumulation gradient_accumulation = GradientAccumulation::Fused;
  OptimizerKernel optimizer_kernel = OptimizerKernel::Fused;
  GradientClipping gradient_clipping = GradientClipping::None;  // to a norm: gradients are read, then read and written
  bool zero_gradients = false;  // gradients are set to zeros, a kernel a parameter, rather than given back
  Fp8Scaling fp8_scaling = Fp8Scaling::Delayed;
  bool fp8_parameters = false;   // weights of products in 8 bits are kept and gathered so, not in 2 bytes
  bool gradient_scaler = false;  // fp16: gradients are divided by the loss's scale and looked through for infinities
  // Device time.
  double elementwise_factor = 1.0;   // x: traffic of element-wise operators over fully fused kernels
  double replicated_factor = 0;      // the same of normalizations and residual sums, which every tensor-parallel rank repeats;
                                     // 0 = elementwise_factor
  double score_factor = 1.0;         // s2x: traffic of unfused attention scores
  double loss_bytes_per_logit = 20;  // traffic of the loss, forward and backward together
  bool loss_in_chunks = false;       // the backward makes a chunk's logits again
  int training_metrics = 0;          // cross entropies that are computed besides, forward alone, for the log
  bool dropout = true;               // trains with dropout: its masks are written, read and kept even where the graph has none
  double optimizer_factor = 1;       // traffic of the optimizer step over one fused kernel
  // Host.
  // Host launches per transformer layer; 0 = counted from its operators and the choices.
  int forward_operators = 0, backward_operators = 0;
  Duration launch{0};           // host time per operator; 0 = the device's calibration says
  int collective_launches = 0;  // operators that a tensor-parallel collective takes; 0 = one, and its wait for the other hosts
  bool synchronous_launches = false;  // host and device add instead of overlapping
  // Communication.
  bool blocking_transfers = true;  // a rank waits for its own pipeline sends
  bool scatter_gather = true;      // stage hand-over split over the tensor-parallel ranks, gathered at the receiver
  bool distributed_optimizer = false;
  bool overlap_tensor_collectives = false;  // a full backward hides the input gradient's collective behind the weight gradient
  // Sequence parallelism: its gathers and reduce-scatters and the products next to them go in so many chunks, side by side; 1:
  // whole, one behind the other; 0: as many as the group has ranks.
  int tensor_chunks = 1;
  ExpertDispatch expert_dispatch = ExpertDispatch::Rows;
  bool residual_before_reduction = false;  // each tensor-parallel rank adds its part of the residual before the all-reduce
  // Buckets of gradients that are reduced beside the backward: so many bytes; or, where elements are given, these, and no fewer
  // than so many for each replica.
  Bytes gradient_bucket = mib(25);
  double gradient_bucket_elements = 0;
  double gradient_bucket_elements_per_copy = 0;
  bool awaited_buckets = false;  // what is reduced behind the backward goes in buckets too, one behind another
  // Beside the last backward: without ZeRO the all-reduces of gradients, under ZeRO 1 their reduce-scatters. And beside the next
  // step's first forwards the gathers of parameters that ZeRO 1 and 2 have updated, block by block.
  bool overlap_all_reduce = false, overlap_reduce_scatter = false, overlap_parameter_gather = false;
  // ZeRO 3: how many blocks ahead of the one that runs parameters are asked for, and how many blocks may be whole at once.
  int gather_prefetch = 1, gathers_in_flight = 2;
  // Memory.
  int gradient_bytes = 0;                      // per parameter; 0 = by precision
  int bf16_extra_gradient_bytes = 0;           // kept besides under bf16 (an accumulation copy)
  bool keep_gathered_inputs = false;           // sequence parallelism: products keep the gathered input, not their shard of it
  double replicated_saved_factor = 1;          // activations kept over what operators read again: outside the parallel region,
  double sharded_saved_factor = 1;             // and inside (copies in fp32 or in another layout)
  double released_by_input_gradient = -1;      // share of a unit's activations that I frees; -1 = all that W does not read
  double loss_live_bytes_per_logit = 10;       // logits, their fp32 copy and gradient while the loss runs
  double allocator_factor = 1.04;              // fragmentation
  Bytes context = gib(1);                      // CUDA context, NCCL, workspaces
  std::map<std::string, std::string> sources;  // key -> where the number comes from

  // "megatron", "torch-compile (attention: unfused)".
  std::string title() const { return changed.empty() ? name : name + " (" + changed + ")"; }
};

// `name_or_path`: the name of a shipped preset ("megatron"), or a file, relative to `directory` or to the data folder.
// Throws InputError: no such preset (naming those there are), or what is wrong in the file.
Framework load_framework(const std::string& name_or_path, const std::string& directory);

// `framework: {name: torch-compile, attention: unfused}`: the preset or file, with single keys changed; the preset `otherwise`
// where no name is given. `node` must be a map; what is wrong in it is logged, what is wrong in the file is thrown (InputError).
Framework read_framework_choices(const Node& node, const std::string& otherwise, ReadLog& log);

}  // namespace panpipe
