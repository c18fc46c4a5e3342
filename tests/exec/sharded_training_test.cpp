// ZeRO 2 and 3: training with divided gradients and parameters equals one process, the memory is really given back, and
// checkpoints go from each to each.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "costmodel/prediction/prediction.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/sharded_parameters.hpp"
#include "exec/engine/transport/on_threads.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

// Twelve microbatches over all replicas; numbers of elements that 2 and 4 do not divide (a vocabulary of 47, vectors of 18).
std::string model_on(Mesh mesh, const std::string& parallel, const std::string& extra) {
  mesh.more = parallel;
  return scenario_on(mesh, "model: gpt, layers: 4, hidden: 18, heads: 2, sequence: 8, vocabulary: 47",
                     fmt::format("{{micro: 2, microbatches: {}}}", 12 / mesh.data), extra);
}

struct Case {
  Mesh mesh;
  std::string extra{}, parallel{};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1, 2, 1}},
      {{1, 4, 1}, "recompute: full\n"},
      {{1, 2, 1}, "recompute: selective\n"},
      {{2, 2, 1}, "schedule: gpipe\n"},
      {{2, 2, 1}, "schedule: 1f1b\n"},
      {{2, 4, 1}, "schedule: 1f1b\nrecompute: full\n"},
      {{2, 2, 1}, "schedule: {name: interleaved-1f1b, stages_per_rank: 2}\n"},
      {{2, 2, 1}, "schedule: zb-h1\n"},
      {{2, 2, 1}, "schedule: zb-v\nrecompute: {every: 2}\n"},
      {{2, 2, 1}, "schedule: dualpipe\n"},
      {{2, 2, 1}, "schedule: chimera\n"},
      {{2, 2, 1}, "schedule: {name: seq-1f1b, sequence_splits: 4}\n"},
      {{2, 2, 1}, "schedule: {name: 1f1b, offload: full}\n"},
      {{1, 2, 2}, "", ", sequence_parallel: true"},
      {{2, 2, 2}, "schedule: 1f1b\nrecompute: full\n"},
      {{2, 2, 2}, "schedule: stp\n"},
      {{1, 4, 1}, "", ", shard: 2"},
      {{2, 4, 1}, "schedule: zb-h1\n", ", shard: 2"},
  };
  return all;
}

class Sharded : public testing::TestWithParam<int> {
 protected:
  std::string parallel(const std::string& more = "") const { return fmt::format(", zero: {}{}", GetParam(), more); }
};

// To the tolerance of all meshes: replicas and microbatches are summed in another order.
TEST_P(Sharded, TrainingEqualsOneProcess) {
  const Trained one = train(model_on({}, "", kSgd));
  ASSERT_EQ(one.losses.size(), 3u);
  for (const Case& each : cases()) {
    SCOPED_TRACE(fmt::format("{}{} {}", each.mesh.text(), each.parallel, each.extra));
    expect_equal(train(model_on(each.mesh, parallel(each.parallel), kSgd + each.extra)), one);
  }
}

TEST_P(Sharded, ClippedGroupsOfParametersTrainAsInOneProcess) {
  const std::string clip =
      "optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.9, weight_decay: 0.1, no_decay: [vectors, embeddings]}\n"
      "training: {clip_gradients: 0.05}\n";
  const Trained one = train(model_on({}, "", clip));
  expect_equal(train(model_on({2, 2, 1}, parallel(), clip)), one);
  expect_equal(train(model_on({1, 2, 2}, parallel(), clip)), one);
}

// Sums travel in fp32 under mixed precision: what differs is the rounding of the passes alone, as between other meshes.
TEST_P(Sharded, MixedPrecisionTrainsAsReplicasDo) {
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const std::string extra = kSgd + "precision: " + precision + "\n";
    const Trained whole = train(model_on({1, 2, 1}, "", extra)), divided = train(model_on({1, 2, 1}, parallel(), extra));
    ASSERT_EQ(divided.losses.size(), 3u);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(divided.losses[s], whole.losses[s], 2e-3 * whole.losses[s]);
    expect_close(divided.state, whole.state, 0.02);
  }
}

// One microbatch: nothing is summed in another order, so divided sums are the bits of whole ones.
TEST_P(Sharded, WithOneMicrobatchItIsBitEqualToWholeReplicas) {
  const auto of = [](const std::string& parallel) {
    std::string text = model_on({1, 2, 1}, parallel, kAdam);
    return train(text.replace(text.find("microbatches: 6"), 15, "microbatches: 1"));
  };
  const Trained whole = of(""), divided = of(parallel());
  EXPECT_EQ(divided.losses, whole.losses);
  expect_bit_equal(divided.gradients, whole.gradients);
  expect_bit_equal(divided.state, whole.state);
}

// Files hold whole tensors: each run goes on from each other's.
TEST_P(Sharded, CheckpointsGoOnEverywhere) {
  const Trained one = train(model_on({}, "", kSgd), 4);
  const std::string own = model_on({2, 2, 1}, parallel(), kSgd),
                    others[] = {model_on({}, "", kSgd), model_on({1, 4, 1}, parallel(", shard: 2"), kSgd),
                                model_on({1, 2, 2}, parallel(), kSgd), model_on({1, 2, 1}, ", zero: 1", kSgd)};
  for (const std::string& other : others)
    for (const bool from_own : {true, false}) expect_close(from_own ? resumed(own, other) : resumed(other, own), one.state, 2e-5);
  const std::string adam = model_on({2, 2, 1}, parallel(), kAdam);
  expect_bit_equal(resumed(adam, adam), train(adam, 4).state);  // on the same mesh to the bit
}

INSTANTIATE_TEST_SUITE_P(Zero, Sharded, testing::Values(2, 3));

// The two differ in when parameters are whole, and compute the same.
TEST(ShardedTraining, ZeroThreeIsBitEqualToZeroTwo) {
  for (const std::string extra : {"schedule: 1f1b\n", "schedule: zb-h1\n", "schedule: dualpipe\n"}) {
    const Trained two = train(model_on({2, 2, 1}, ", zero: 2", kAdam + extra)),
                  three = train(model_on({2, 2, 1}, ", zero: 3", kAdam + extra));
    EXPECT_EQ(two.losses, three.losses) << extra;
    expect_bit_equal(three.state, two.state);
  }
}

// Zero 1 divides over groups of replicas too: to the bits of no ZeRO, since each updates the same sums.
TEST(ShardedTraining, ZeroOneInShardGroupsIsBitEqualToNone) {
  const Trained whole = train(model_on({1, 4, 1}, "", kAdam)), divided = train(model_on({1, 4, 1}, ", zero: 1, shard: 2", kAdam));
  EXPECT_EQ(whole.losses, divided.losses);
  expect_bit_equal(divided.state, whole.state);
}

// Two ranks in threads, with what a trainer makes of a scenario.
template <class Use>
void on_two_ranks(const PreparedRun& run, Use use) {
  on_threads(make_local_transports(2), [&](Transport& transport) {
    RankSite site{run.graph(), run.plan, run.layout, transport};
    ShardedParameters sharded(site, *run.shards, {1, 2});
    SeededParameters parameters(run.graph(), run.layout, {0}, 7, false, at::kCPU, 0, nullptr, &sharded);
    site.spans.begin(64);
    use(sharded, parameters, site.spans);
  });
}

// Between blocks this rank's part is alive; in a block, the block and the one that is requested ahead.
TEST(ShardedTraining, OnlyBlocksThatRunAreWhole) {
  const Folder folder;
  const PreparedRun run(quiet(folder.write("s.yaml", model_on({1, 2, 1}, ", zero: 3", "")), 1));
  ASSERT_TRUE(run.shards);
  const ShardLayout::Position& position = run.shards->positions[0];
  ASSERT_EQ(position.groups.size(), 5u) << "four blocks, and what is outside";
  std::map<int, std::int64_t> bytes;  // of the groups, whole
  std::int64_t parts = 0, elements = 0;
  for (const auto& [number, group] : position.groups)
    for (const std::size_t flat : group.flats) {
      bytes[number] += 2 * 4 * position.flats[flat].part;
      parts += 4 * position.flats[flat].part;
      for (const FlatParameters::Entry& entry : position.flats[flat].entries) elements += entry.elements;
    }
  // wte 47 x 18, wpe 8 x 18, four blocks of 12 h^2 + 13 h, a last norm of 2 h; a part is half of them and of the gaps.
  ASSERT_EQ(elements, 47 * 18 + 8 * 18 + 4 * (12 * 18 * 18 + 13 * 18) + 2 * 18);
  EXPECT_GE(parts, 4 * elements / 2);
  EXPECT_LE(parts, 4 * (elements + 16 * (4 * 12 + 4)) / 2) << "52 parameters begin at multiples of 64 bytes";
  const SeededParameters seeded(run.graph(), run.layout, {0}, 7);
  on_two_ranks(run, [&](ShardedParameters& sharded, const SeededParameters& parameters, SpanLog&) {
    EXPECT_EQ(sharded.parameter_bytes(), parts);
    for (const auto& [root, value] : parameters.trained()) EXPECT_EQ(value.storage().nbytes(), 0u);
    const std::vector<int> order = {1, 2, 3, 4, 3, 2, 1};
    for (const bool ahead : {false, true}) {  // the first round is not known beforehand
      sharded.begin(ShardedParameters::Passes::Evaluation);
      for (std::size_t i = 0; i < order.size(); ++i) {
        sharded.open(order[i]);
        const bool more = ahead && i + 1 < order.size();
        EXPECT_EQ(sharded.parameter_bytes(), parts + bytes[order[i]] + (more ? bytes[order[i + 1]] : 0));
        for (const std::size_t flat : position.groups.at(order[i]).flats)
          for (const FlatParameters::Entry& entry : position.flats[flat].entries)
            EXPECT_TRUE(at::equal(parameters.trained().at(entry.root), seeded.trained().at(entry.root)));
        sharded.close(order[i], false);
        EXPECT_EQ(sharded.parameter_bytes(), parts + (more ? bytes[order[i + 1]] : 0));
      }
    }
  });
}

// A block that is asked for while it is whole stays: nothing travels.
TEST(ShardedTraining, ABlockThatIsWantedAgainStaysWhole) {
  const Folder folder;
  const PreparedRun run(quiet(folder.write("s.yaml", model_on({1, 2, 1}, ", zero: 3", "")), 1));
  on_two_ranks(run, [&](ShardedParameters& sharded, const SeededParameters&, SpanLog& spans) {
    const std::int64_t parts = sharded.parameter_bytes();
    for (const bool ahead : {false, true}) {
      sharded.begin(ShardedParameters::Passes::Evaluation);
      sharded.open(1);
      sharded.close(1, false);
      EXPECT_EQ(sharded.parameter_bytes() > parts, ahead);
      sharded.open(1);
      sharded.close(1, false);
      EXPECT_EQ(sharded.parameter_bytes(), parts);
    }
    EXPECT_EQ(spans.take().size(), 3u) << "two gathers before it is known that it comes again, then one";
  });
}

std::int64_t part_of(const DeviceTimeline& device, MemoryUse use) {
  for (const MemoryPart& part : device.static_parts)
    if (part.use == use) return part.bytes.base();
  return 0;
}

// Measured: ZeRO 2 halves gradients and Adam's moments, ZeRO 3 parameters too; a peak falls with each.
TEST(ShardedTraining, PeaksFall) {
  const auto measured = [](const std::string& parallel) {
    std::string text = model_on({1, 4, 1}, parallel, kAdam);
    text.replace(text.find("hidden: 18"), 10, "hidden: 64");
    return train(text, 3).timeline.devices.at(0);
  };
  const DeviceTimeline whole = measured(""), two = measured(", zero: 2"), three = measured(", zero: 3");
  // Under ZeRO 2 it depends on the other ranks whether a second microbatch's gradients come before the first ones are reduced.
  EXPECT_LT(two.peak.base(), whole.peak.base());
  EXPECT_LT(static_cast<double>(three.peak.base()), 0.5 * static_cast<double>(whole.peak.base()));
  RecordProperty("peaks", fmt::format("{} {} {}", whole.peak.base(), two.peak.base(), three.peak.base()));
  const auto parameters = static_cast<double>(part_of(whole, MemoryUse::Parameters));
  EXPECT_NEAR(static_cast<double>(part_of(two, MemoryUse::Parameters)) / parameters, 1, 0.01);
  EXPECT_NEAR(part_of(two, MemoryUse::Gradients) / parameters, 0.25, 0.01);
  EXPECT_NEAR(part_of(three, MemoryUse::Parameters) / parameters, 0.25, 0.01);
  EXPECT_NEAR(part_of(three, MemoryUse::Gradients) / parameters, 0.25, 0.01);
}

using Counts = std::map<std::string, int>;

// The spans of device 0 on its data lane, by name and stage.
Counts exchanges(const Timeline& timeline) {
  Counts counts;
  for (const Span& span : timeline.spans)
    if (span.lane == Lane::Data && span.device == 0)
      ++counts[fmt::format("{} {} {}", name_of(span.action.kind), span.label, span.action.stage)];
  return counts;
}

Counts predicted(const std::string& scenario) {
  const Folder folder;
  const Experiment experiment(load_scenario(folder.write("s.yaml", with_rates(scenario))));
  return exchanges(predict(experiment, experiment.plan("")).timeline);
}

// Name by name and as often as predicted; but a block that the next pass wants at once is not gathered again: between the last
// F and the first B of gpipe.
TEST(ShardedTraining, TimelinesShowWhatIsPredicted) {
  for (const std::string parallel : {", zero: 2", ", zero: 3", ", zero: 3, shard: 2"}) {
    SCOPED_TRACE(parallel);
    const std::string scenario = model_on({2, 4, 1}, parallel, kSgd + "schedule: gpipe\npartition: [h.2]\n");
    const Folder folder;
    RunRequest request = quiet(folder.write("s.yaml", scenario), 1);
    request.warmup = 1;  // the first step asks for nothing ahead
    const Outcome run = run_threads(request.scenario, request);
    ASSERT_EQ(run.error(), "");
    Counts measured = exchanges(run.timeline);
    if (parallel != ", zero: 2") ++measured["UNSHARD all_gather 0"];
    EXPECT_EQ(measured, predicted(scenario));
  }
}

}  // namespace
}  // namespace panpipe::exec
