// Memory of PyTorch's eager trainers, in closed forms (docs/models/memory.md): what exists in which part of a step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "costmodel/lowering/allocation_history.hpp"
#include "costmodel/lowering/allocator_replay.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

constexpr int kHidden = 256, kLayers = 2, kVocabulary = 1000;

struct Job {
  std::string parallel = "{pipeline: 1}", optimizer = "adamw", precision = "bf16", framework = "name: eager-sdpa", more = "";
  int sequence = 16, micro = 1, microbatches = 1, devices = 2;
};

Scenario scenario_of(const Job& job) {
  return parse_scenario(fmt::format(R"(panpipe: 1
cluster: {{device: {{file: devices/a100-80g-sxm.yaml}}, devices_per_node: {}, wiring: {{switch: {{bandwidth: 300 GB/s}}}}}}
workload: {{model: gpt, layers: {}, hidden: {}, heads: 4, sequence: {}, vocabulary: {}, tied_embedding: false}}
batch: {{micro: {}, microbatches: {}}}
parallel: {}
optimizer: {}
precision: {}
framework: {{{}, context: 0 B}}
{})",
                                    job.devices, kLayers, kHidden, job.sequence, kVocabulary, job.micro, job.microbatches,
                                    job.parallel, job.optimizer, job.precision, job.framework, job.more),
                        "test", ".");
}

struct Memory {
  std::map<MemoryUse, double> parts;
  double sum = 0, parameters = 0;
  Metrics metrics;
  double of(MemoryUse use) const { return parts.contains(use) ? parts.at(use) : 0; }
};

// Of the fullest device, the allocator's part left out of `sum`.
Memory memory_of(const Job& job) {
  const Experiment experiment(scenario_of(job));
  const Prediction prediction = predict(experiment, experiment.plan(""));
  Memory memory;
  memory.metrics = prediction.metrics;
  memory.parameters = prediction.metrics.parameters;
  const DeviceTimeline* fullest = nullptr;
  for (const DeviceTimeline& device : prediction.timeline.devices)
    if (device.same_as < 0 && (fullest == nullptr || device.peak > fullest->peak)) fullest = &device;
  for (const MemoryPart& part : fullest->peak_parts) {
    memory.parts[part.use] += static_cast<double>(part.bytes.base());
    if (part.use != MemoryUse::Fragmentation) memory.sum += static_cast<double>(part.bytes.base());
  }
  return memory;
}

// With few tokens the optimizer's step is the peak. AdamW's weights, gradients and two moments are in fp32, and its kernels over
// many tensors take the roots of all second moments at once: 4 + 4 + 8 + 4 bytes a parameter. Fused kernels take none; one
// tensor after another takes two roots of the largest, an MLP's: 2 x 4 x 4 hidden^2.
TEST(EagerMemory, TheOptimizersStepIsThePeakOfASmallBatch) {
  const Memory many = memory_of({});
  EXPECT_DOUBLE_EQ(many.of(MemoryUse::Parameters), 4 * many.parameters);
  EXPECT_DOUBLE_EQ(many.of(MemoryUse::Gradients), 4 * many.parameters);
  EXPECT_DOUBLE_EQ(many.of(MemoryUse::Optimizer), 8 * many.parameters);
  EXPECT_DOUBLE_EQ(many.of(MemoryUse::Temporary), 4 * many.parameters);
  EXPECT_DOUBLE_EQ(many.of(MemoryUse::Activations), 0);
  const Memory fused = memory_of({.framework = "name: eager-sdpa, optimizer_kernel: fused"});
  EXPECT_LT(fused.of(MemoryUse::Temporary), 0.1 * fused.parameters);
  const Memory loop = memory_of({.framework = "name: eager-sdpa, optimizer_kernel: loop"});
  EXPECT_DOUBLE_EQ(loop.of(MemoryUse::Temporary), 2.0 * 4 * 4 * kHidden * kHidden);
}

// With many tokens it is the loss, before any gradient exists; with two microbatches those of the first exist next to the
// second's activations. Two pipelined stages under GPipe still see no gradient before all forwards have run.
TEST(EagerMemory, GradientsExistFromTheFirstBackwardOn) {
  Job job{.sequence = 512, .micro = 16};
  EXPECT_DOUBLE_EQ(memory_of(job).of(MemoryUse::Gradients), 0);
  job.microbatches = 2;
  const Memory two = memory_of(job);
  EXPECT_DOUBLE_EQ(two.of(MemoryUse::Gradients), 4 * two.parameters);
  job.parallel = "{pipeline: 2}";
  job.more = "schedule: gpipe\n";
  EXPECT_DOUBLE_EQ(memory_of(job).of(MemoryUse::Gradients), 0);
  job.more = "schedule: 1f1b\n";
  EXPECT_GT(memory_of(job).of(MemoryUse::Gradients), 0);
}

// Megatron's buffers stay: 2 + 2 bytes of weights and gradients, and 12 of master and moments, at every moment.
TEST(EagerMemory, AMasterCopyIsTheOptimizers) {
  const Memory memory = memory_of({.framework = "name: megatron", .sequence = 512, .micro = 16});
  EXPECT_DOUBLE_EQ(memory.of(MemoryUse::Parameters), 2 * memory.parameters);
  EXPECT_DOUBLE_EQ(memory.of(MemoryUse::Gradients), 2 * memory.parameters);
  EXPECT_DOUBLE_EQ(memory.of(MemoryUse::Optimizer), 12 * memory.parameters);
}

// DistributedDataParallel's buckets hold all gradients once more, in fp32, whenever gradients exist; FSDP has shards: half of 4
// bytes of weights and gradients and of 8 of moments, and under ZeRO 2 the whole weights in 2 bytes next to them.
TEST(EagerMemory, ReplicasHoldBucketsOrShards) {
  const Memory ddp = memory_of({.parallel = "{data: 2}"});
  EXPECT_DOUBLE_EQ(ddp.of(MemoryUse::GradientBuckets), 4 * ddp.parameters);
  for (const int zero : {2, 3}) {
    const Memory fsdp = memory_of({.parallel = fmt::format("{{data: 2, zero: {}}}", zero)});
    EXPECT_DOUBLE_EQ(fsdp.of(MemoryUse::GradientBuckets), 0);
    EXPECT_DOUBLE_EQ(fsdp.of(MemoryUse::Parameters), (zero == 2 ? 2 + 2 : 2) * fsdp.parameters) << zero;
    EXPECT_DOUBLE_EQ(fsdp.of(MemoryUse::Gradients), 2 * fsdp.parameters) << zero;
    EXPECT_DOUBLE_EQ(fsdp.of(MemoryUse::Optimizer), 4 * fsdp.parameters) << zero;
  }
}

// Gradients that are reduced behind the last microbatch are whole until then, 4 bytes each, although ZeRO divides them; with one
// microbatch there is nothing to wait for, and a shard is half of 4 bytes. At the step they are shards: what is left of the
// temporaries of foreach, 4 / 2 bytes, is less than the whole gradients that are gone, 4 - 4 / 2.
TEST(EagerMemory, UnshardedGradientsAreWholeUntilTheLastMicrobatch) {
  Job job{.parallel = "{data: 2, zero: 3}", .framework = "name: eager-sdpa, gradient_storage: unsharded"};
  EXPECT_DOUBLE_EQ(memory_of(job).of(MemoryUse::Gradients), 2 * memory_of(job).parameters);
  job.microbatches = 2;
  const Memory whole = memory_of(job);
  EXPECT_DOUBLE_EQ(whole.of(MemoryUse::Gradients), 4 * whole.parameters);
  EXPECT_DOUBLE_EQ(whole.of(MemoryUse::Parameters) + whole.of(MemoryUse::Optimizer), (2 + 4) * whole.parameters);
  EXPECT_LT(whole.of(MemoryUse::Temporary), 4.0 / 2 * whole.parameters);
  job.framework = "name: eager-sdpa";
  EXPECT_DOUBLE_EQ(memory_of(job).of(MemoryUse::Gradients), 2 * whole.parameters);
  // One reduction of each block and step, not of each microbatch.
  const auto reductions = [&](const std::string& framework) {
    const Experiment experiment(scenario_of({.parallel = job.parallel, .framework = framework, .microbatches = 2}));
    const Prediction prediction = predict(experiment, experiment.plan(""));
    int count = 0;
    for (const Span& span : prediction.timeline.spans) count += span.device == 0 && span.action.kind == ActionKind::ReduceGrad;
    return count;
  };
  EXPECT_EQ(reductions("name: eager-sdpa"), 2 * reductions("name: eager-sdpa, gradient_storage: unsharded"));
}

// FSDP's root, embeddings and head together, is larger than a block and whole with one of the two of 12 h^2 + 13 h parameters
// while ZeRO 3's passes run; under ZeRO 2 both blocks are, in 2 bytes.
TEST(EagerMemory, TheRootOfFsdpIsWhole) {
  const auto sum = [](int zero) {
    return memory_of({.parallel = fmt::format("{{data: 2, zero: {}}}", zero), .sequence = 2048, .micro = 4}).sum;
  };
  EXPECT_DOUBLE_EQ(sum(2) - sum(3), 2 * (12.0 * kHidden * kHidden + 13 * kHidden));
}

// FSDP 1's backward has the flat parameters of two blocks and the gradients of one in its gathers' memory, which FSDP 2 gives
// back or takes from the passes': blocks of 12 x 1024^2 parameters are 24 MiB each.
TEST(EagerMemory, FlatParametersReserveMore) {
  const auto reserved = [](const std::string& accumulation) {
    const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 2, wiring: {switch: {bandwidth: 300 GB/s}}}
workload: {model: gpt, layers: 4, hidden: 1024, heads: 16, sequence: 256, vocabulary: 4096, tied_embedding: true}
batch: {micro: 1, microbatches: 1}
parallel: {data: 2, zero: 3}
precision: bf16
framework: {name: eager-sdpa, context: 0 B, gradient_accumulation: )" +
                                                   accumulation + "}\n",
                                               "test", "."));
    return predict(experiment, experiment.plan("")).metrics.reserved_memory_bytes;
  };
  EXPECT_GE(reserved("flat") - reserved("autograd"), 24 << 20);
}

// DeepSpeed steps with the gradients of a rank in one tensor of 2 bytes and cast to 4: 6 bytes for each of the half of the
// parameters that a rank updates, where they are less than 10^9. Its buckets of 10^6 elements have 2 bytes each: two under ZeRO
// 2, one under ZeRO 3.
TEST(EagerMemory, DeepspeedCastsTheGradientsOfAGroup) {
  for (const int zero : {1, 2, 3}) {
    const Memory groups = memory_of({.parallel = fmt::format("{{data: 2, zero: {}}}", zero),
                                     .framework = "name: deepspeed, gradient_bucket_elements: 1000000"});
    EXPECT_DOUBLE_EQ(groups.of(MemoryUse::Temporary), 6.0 / 2 * groups.parameters) << zero;
    EXPECT_DOUBLE_EQ(groups.of(MemoryUse::GradientBuckets), zero == 1 ? 0 : zero == 2 ? 4e6 : 2e6) << zero;
  }
  EXPECT_LT(memory_of({.framework = "name: deepspeed"}).of(MemoryUse::Temporary), 1e6);
}

// A gated MLP's kernel keeps gate and up, and makes silu(gate) again: 2 bytes less for each token and column of the 704 than
// operators, which keep it for the product. Their common result is kept for the second product in either case.
TEST(EagerMemory, AFusedGateKeepsItsInput) {
  const auto saved = [](const std::string& elementwise) {
    const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 1, wiring: {switch: {bandwidth: 300 GB/s}}}
workload: {config: {model_type: llama, hidden_size: 256, intermediate_size: 704, num_hidden_layers: 1, num_attention_heads: 4,
  num_key_value_heads: 4, vocab_size: 1024, max_position_embeddings: 16}, sequence: 16}
batch: {micro: 1, microbatches: 1}
precision: bf16
framework: {name: eager-sdpa, autocast: false, normalization: kernel, elementwise: )" +
                                                   elementwise + "}\n",
                                               "test", "."));
    double sum = 0;
    for (const UnitCost& unit : experiment.model.workload(0).units) sum += static_cast<double>(unit.saved.base());
    return sum;
  };
  EXPECT_DOUBLE_EQ(saved("eager") - saved("fused"), 2.0 * 16 * 704);
  EXPECT_DOUBLE_EQ(saved("compiled"), saved("fused"));
}

// A block's four products have 12 h^2 weights and 9 h biases, whose 2-byte copies autocast keeps; a norm's fp32 input has 2 bytes
// more a token and channel, twice in a block. Full recompute keeps neither, but the cache holds all copies until the forward
// ends.
TEST(EagerMemory, AutocastKeepsCopies) {
  const Experiment experiment(scenario_of({}));
  double copies = 0;
  for (const UnitCost& unit : experiment.model.workload(0).units)
    if (unit.block == "h.0") copies += static_cast<double>(unit.weight_copies.base());
  EXPECT_DOUBLE_EQ(copies, 2 * (12.0 * kHidden * kHidden + 9 * kHidden));
  const auto saved = [](const std::string& framework) {
    const Experiment of(scenario_of({.framework = framework}));
    double sum = 0;
    for (const UnitCost& unit : of.model.workload(0).units)
      if (unit.block == "h.0") sum += static_cast<double>(unit.saved.base());
    return sum;
  };
  EXPECT_DOUBLE_EQ(saved("name: eager-sdpa") - saved("name: eager-sdpa, autocast: false"), 2 * 2.0 * 16 * kHidden);
}

// torch.distributed.pipelining keeps each microbatch's logits on the last rank: 4 x 64 x 1000 x 2 bytes.
TEST(EagerMemory, APipelinesResultsStay) {
  const auto last = [](const std::string& framework) {
    Job job{.framework = framework, .sequence = 64, .micro = 1, .microbatches = 4};
    job.parallel = "{pipeline: 2}";
    job.more = "schedule: gpipe\n";
    const Experiment experiment(scenario_of(job));
    const Prediction prediction = predict(experiment, experiment.plan(""));
    double most = 0;
    for (const DeviceTimeline& device : prediction.timeline.devices)
      for (const MemoryPart& part : device.peak_parts)
        if (device.rank == 1 && part.use == MemoryUse::Activations) most = std::max(most, static_cast<double>(part.bytes.base()));
    return most;
  };
  const std::string sgd = "name: eager-sdpa, optimizer_kernel: fused";
  EXPECT_DOUBLE_EQ(last(sgd) - last(sgd + ", joins_pipeline_outputs: false"), 4.0 * 64 * kVocabulary * 2);
}

// Results of 16 x 64 x 32768 x 2 bytes = 64 MiB stay, and need one segment of their size to be joined, although as much is free
// in smaller ones: GPipe's activations of 16 microbatches were given back before.
TEST(EagerMemory, APipelinesJoinedResultsNeedASegment) {
  const auto reserved = [](const std::string& joins) {
    const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 2, wiring: {switch: {bandwidth: 300 GB/s}}}
workload: {model: gpt, layers: 8, hidden: 256, heads: 4, sequence: 64, vocabulary: 32768, tied_embedding: false}
batch: {micro: 1, microbatches: 16}
parallel: {pipeline: 2}
schedule: gpipe
optimizer: sgd
precision: bf16-pure
framework: {name: eager-sdpa, context: 0 B, joins_pipeline_outputs: )" +
                                                   joins + "}\n",
                                               "test", "."));
    const Prediction prediction = predict(experiment, experiment.plan(""));
    double most = 0;
    for (const DeviceTimeline& device : prediction.timeline.devices)
      if (device.rank == 1) most = std::max(most, static_cast<double>(device.peak.base()));
    return most;
  };
  EXPECT_GE(reserved("true") - reserved("false"), 1.5 * (64 << 20));
}

// Tensors, segments and the card's need, in this order; expandable segments waste least, but for a page of 2 MiB; a stated factor
// replaces the replay.
TEST(EagerMemory, TheAllocatorIsReplayed) {
  for (const int micro : {1, 4, 32}) {
    const Job job{.sequence = 256, .micro = micro};
    const Memory caching = memory_of(job);
    EXPECT_GE(caching.metrics.allocated_memory_bytes, 0.999 * caching.sum);
    EXPECT_GE(caching.metrics.reserved_memory_bytes, caching.metrics.allocated_memory_bytes);
    EXPECT_DOUBLE_EQ(caching.metrics.peak_memory_bytes, caching.metrics.reserved_memory_bytes);  // no context
    Job expandable = job;
    expandable.framework = "name: eager-sdpa, allocator: expandable-segments";
    EXPECT_LE(memory_of(expandable).metrics.reserved_memory_bytes, caching.metrics.reserved_memory_bytes * 1.02 + (2 << 20));
    Job factor = job;
    factor.framework = "name: eager-sdpa, allocator_factor: 1.25";
    const Memory stated = memory_of(factor);
    EXPECT_NEAR(stated.metrics.reserved_memory_bytes, 1.25 * stated.sum, 1);
    EXPECT_NEAR(stated.metrics.allocated_memory_bytes, stated.sum, 1);
  }
}

// A full card makes PyTorch give unused segments back and try again: a step whose tensors fit does not need what would be
// reserved on a larger card, and no card makes it need more.
TEST(EagerMemory, AFullCardGivesUnusedSegmentsBack) {
  int fit_by_retries = 0;
  for (const int micro : {4, 16, 32})
    for (const char* recompute : {"none", "full"}) {
      Job job{.sequence = 256, .micro = micro};
      job.more = fmt::format("recompute: {}\n", recompute);
      const Metrics endless = memory_of(job).metrics;
      const double card = endless.memory_limit_bytes;
      for (const double share : {0.25, 0.5, 0.75}) {
        const double limit =
            endless.allocated_memory_bytes + share * (endless.reserved_memory_bytes - endless.allocated_memory_bytes);
        job.more = fmt::format("recompute: {}\nusable: {:.7f} %\n", recompute, 100 * limit / card);
        const Metrics full = memory_of(job).metrics;
        EXPECT_LE(full.reserved_memory_bytes, endless.reserved_memory_bytes) << micro;
        // What the replay makes and what the sums count differ by a few per cent here.
        EXPECT_TRUE(full.reserved_memory_bytes <= 1.05 * limit || full.reserved_memory_bytes == endless.reserved_memory_bytes)
            << micro;
        fit_by_retries += full.fits ? 1 : 0;
      }
    }
  EXPECT_GT(fit_by_retries, 0);
}

// Under autocast the residual stream is in fp32, so that a recomputed block keeps 4 bytes of each of its inputs; and the loss's
// forward, which is the peak while autocast still caches copies of the weights, has no gradients. The sums and the replay of the
// allocator count both.
TEST(EagerMemory, SumsAndReplayAgreeUnderAutocastAndFullRecompute) {
  const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 1, wiring: {switch: {bandwidth: 300 GB/s}}}
workload: {model: gpt, layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocabulary: 32000}
batch: {micro: 4, microbatches: 1}
precision: bf16
recompute: full
framework: {name: eager-sdpa, autocast: true, optimizer_kernel: fused, context: 0 B}
)",
                                             "test", "."));
  const Plan plan = experiment.plan("");
  const AllocationHistory history =
      record_allocations(experiment.scenario, plan, ModelCosts(experiment.model, plan), *experiment.workload.graph, 0);
  const Metrics metrics = predict(experiment, plan).metrics;
  EXPECT_NEAR(metrics.allocated_memory_bytes / static_cast<double>(history.allocated_peak), 1, 0.02);
}

// A weight of 11 MiB takes a segment of 12 MiB, of which less than 1 MiB would be left: PyTorch does not split it.
TEST(EagerMemory, LargeTensorsAreRoundedToTheirSegments) {
  const Experiment experiment(parse_scenario(R"(panpipe: 1
cluster: {device: {file: devices/a100-80g-sxm.yaml}, devices_per_node: 1, wiring: {switch: {bandwidth: 300 GB/s}}}
workload: {config: {model_type: llama, hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 8, num_attention_heads: 16,
  num_key_value_heads: 16, vocab_size: 1024, tie_word_embeddings: true, max_position_embeddings: 16}, sequence: 16}
batch: {micro: 1, microbatches: 1}
precision: bf16
framework: {name: eager-sdpa, optimizer_kernel: fused}
)",
                                             "test", "."));
  const Plan plan = experiment.plan("");
  const auto overheads = replay_allocator(experiment.scenario, plan, ModelCosts(experiment.model, plan));
  ASSERT_EQ(overheads.size(), 1u);
  // Of 12.6 MiB^2 weights a layer 3 x 11 MiB become 3 x 12, and 4 x 4 MiB stay: (36 + 16) / (33 + 16) = 1.061; norms and the
  // embedding of 4 MiB are exact: 8 x 52 + 4 over 8 x 49 + 4.
  EXPECT_NEAR(overheads.front().allocated, (8.0 * 52 + 4) / (8 * 49 + 4), 0.01);
  EXPECT_GE(overheads.front().reserved, overheads.front().allocated);
}

}  // namespace
}  // namespace panpipe
