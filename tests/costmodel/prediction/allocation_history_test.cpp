// The history that a snapshot is written from is the replay behind the answer: the same peaks, each block once, each with a name.
#include "costmodel/lowering/allocation_history.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/index.hpp"
#include "costmodel/lowering/allocator_replay.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "costmodel/prediction/prediction.hpp"

namespace panpipe {
namespace {

struct HistoryJob {
  std::string parallel = "{pipeline: 1}", more = "";
  std::string framework = "name: eager-sdpa";
  int micro = 2, microbatches = 2;
  bool exact = true;  // the replay makes the tensors that the sums count
};

Scenario scenario_of(const HistoryJob& job) {
  return parse_scenario(fmt::format(R"(panpipe: 1
cluster: {{device: {{file: devices/a100-80g-sxm.yaml}}, devices_per_node: 2, wiring: {{switch: {{bandwidth: 300 GB/s}}}}}}
workload: {{model: gpt, layers: 4, hidden: 256, heads: 4, sequence: 128, vocabulary: 1000, tied_embedding: false}}
batch: {{micro: {}, microbatches: {}}}
parallel: {}
optimizer: adamw
precision: bf16
framework: {{{}, context: 0 B}}
{})",
                                    job.micro, job.microbatches, job.parallel, job.framework, job.more),
                        "test", ".");
}

const std::vector<HistoryJob> kJobs = {
    {},
    {.framework = "name: eager-sdpa, allocator: expandable-segments"},
    {.more = "recompute: full\n"},
    {.parallel = "{pipeline: 2}", .more = "schedule: 1f1b\n", .microbatches = 6, .exact = false},
    {.parallel = "{data: 2}"},
    {.parallel = "{data: 2, zero: 3}", .exact = false},
    {.parallel = "{tensor: 2}"}};

AllocationHistory history_of(const Experiment& experiment, const Plan& plan, int rank) {
  return record_allocations(experiment.scenario, plan, ModelCosts(experiment.model, plan), *experiment.workload.graph, rank);
}

// Adds events up: blocks lie in segments that were taken, never twice, and the highest sums are the allocator's own peaks.
void expect_consistent(const AllocationHistory& history) {
  std::map<std::int64_t, std::int64_t> blocks;
  std::int64_t allocated = 0, reserved = 0, most_allocated = 0, most_reserved = 0;
  for (const RecordedEvent& event : history.events) {
    switch (event.of.action) {
      case AllocatorAction::Allocate:
        EXPECT_TRUE(blocks.emplace(event.of.address, event.of.size).second);
        EXPECT_LE(event.asked, event.of.size);
        allocated += event.of.size;
        break;
      case AllocatorAction::Free:
        ASSERT_EQ(blocks.at(event.of.address), event.of.size);
        blocks.erase(event.of.address);
        allocated -= event.of.size;
        break;
      case AllocatorAction::TakeSegment:
      case AllocatorAction::MapPages:
        reserved += event.of.size;
        break;
      default:
        reserved -= event.of.size;
    }
    most_allocated = std::max(most_allocated, allocated);
    most_reserved = std::max(most_reserved, reserved);
    ASSERT_GE(event.label, 0);
    const AllocationLabel& label = history.labels[at(event.label)];
    EXPECT_FALSE(label.what.empty());
    EXPECT_FALSE(label.when.empty());
  }
  EXPECT_EQ(most_allocated, history.allocated_peak);
  EXPECT_EQ(most_reserved, history.reserved_peak);
  std::int64_t of_segments = 0;
  std::size_t of_blocks = 0;
  for (const AllocatorSegment& segment : history.segments) {
    of_segments += segment.size;
    for (const AllocatorBlock& block : segment.blocks) of_blocks += block.allocated;
  }
  EXPECT_EQ(of_segments, reserved);
  EXPECT_EQ(of_blocks, blocks.size());
}

TEST(AllocationHistory, IsTheReplayOfTheAnswer) {
  for (const HistoryJob& job : kJobs) {
    SCOPED_TRACE(job.parallel + job.framework + job.more);
    const Experiment experiment(scenario_of(job));
    const Plan plan = experiment.plan("");
    const auto overheads = replay_allocator(experiment.scenario, plan, ModelCosts(experiment.model, plan));
    const Prediction prediction = predict(experiment, plan);
    for (int rank = 0; rank < plan.pipeline; ++rank) {
      const AllocationHistory history = history_of(experiment, plan, rank);
      expect_consistent(history);
      const auto asked = static_cast<double>(history.asked_peak);
      EXPECT_DOUBLE_EQ(static_cast<double>(history.allocated_peak) / asked, overheads[at(rank)].allocated);
      EXPECT_DOUBLE_EQ(static_cast<double>(history.reserved_peak) / asked, overheads[at(rank)].reserved);
      // The answer is its sums times the same overheads: both figures differ from the replay's by one factor.
      for (const DeviceTimeline& device : prediction.timeline.devices) {
        if (device.rank != rank) continue;
        const auto scale = static_cast<double>(device.allocated.base()) / static_cast<double>(history.allocated_peak);
        EXPECT_NEAR(static_cast<double>(device.reserved.base()) / static_cast<double>(history.reserved_peak), scale, 1e-6);
        EXPECT_NEAR(scale, 1, job.exact ? 1e-6 : 0.07);
      }
    }
  }
}

// AdamW in a step: parameters, two states each; a bf16 model under autocast keeps fp32 weights of 4 bytes. What lasts from step
// to step is named by its parameter.
TEST(AllocationHistory, NamesWhatLasts) {
  const Experiment experiment(scenario_of({}));
  const AllocationHistory history = history_of(experiment, experiment.plan(""), 0);
  std::map<MemoryUse, std::int64_t> bytes;
  std::set<std::string> places;
  std::map<std::int64_t, const RecordedEvent*> blocks;
  for (const RecordedEvent& event : history.events)
    if (event.of.action == AllocatorAction::Allocate) blocks[event.of.address] = &event;
  for (const AllocatorSegment& segment : history.segments)
    for (const AllocatorBlock& block : segment.blocks) {
      if (!block.allocated) continue;
      const AllocationLabel& label = history.labels[at(blocks.at(block.address)->label)];
      bytes[label.use] += blocks.at(block.address)->asked;
      places.insert(label.where);
    }
  const auto parameters = static_cast<std::int64_t>(experiment.workload.trained_parameters);
  EXPECT_EQ(bytes[MemoryUse::Parameters], 4 * parameters);
  EXPECT_EQ(bytes[MemoryUse::Optimizer], 8 * parameters);
  EXPECT_EQ(bytes.size(), 2u);  // gradients and activations are gone when a step has ended
  EXPECT_TRUE(places.contains("transformer.h.3.attn.c_attn.weight")) << *places.begin();
}

TEST(AllocationHistory, IsEmptyWhereNothingIsReplayed) {
  const Experiment experiment(scenario_of({.framework = "name: eager-sdpa, allocator: factor"}));
  EXPECT_TRUE(history_of(experiment, experiment.plan(""), 0).events.empty());
}

}  // namespace
}  // namespace panpipe
