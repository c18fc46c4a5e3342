// Weights in the host's memory that come for the turns of their stages: training equals one process, what is read too early or
// too late shows, the device really holds less, and timelines show what is predicted.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>

#include "costmodel/prediction/prediction.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/weight_slots.hpp"
#include "exec/engine/worker.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

const std::string kOnHost = "offload: {optimizer: cpu, parameters: cpu}\n";

std::string model_on(const Mesh& mesh, const std::string& extra, int hidden = 18, int layers = 4) {
  return scenario_on(mesh,
                     fmt::format("model: gpt, layers: {}, hidden: {}, heads: 2, sequence: 8, vocabulary: 46", layers, hidden),
                     "{micro: 2, microbatches: 8}", extra);
}

class WeightSlotsTest : public testing::Test {
 protected:
  WeightSlotsTest() { WeightSlots::poison(true); }
  ~WeightSlotsTest() override { WeightSlots::poison(false); }
};

const std::string kRounds = "schedule: {name: roundpipe, forward_slots: 1, backward_slots: 3}\n";

struct Case {
  Mesh mesh;
  std::string extra;
};

// Freed slots hold NaNs throughout.
TEST_F(WeightSlotsTest, TrainingEqualsOneProcess) {
  const Trained one = train(model_on({}, kSgd));
  ASSERT_EQ(one.losses.size(), 3U);
  for (const Case& each : std::vector<Case>{
           {{1, 1}, ""},
           {{1, 1}, "schedule: {name: looped-bfs, stages_per_rank: 4}\n"},  // ZeRO-Infinity's order
           {{1, 1}, "schedule: {name: roundpipe, forward_slots: 2, backward_slots: 5}\n"},
           {{2, 1}, kRounds},
           {{2, 1}, "schedule: {name: roundpipe, forward_slots: 1, backward_slots: 4}\n"},  // rounds that begin on each rank
           {{2, 1}, kRounds + "recompute: full\n"},
           {{2, 1, 2}, kRounds},
           {{2, 1}, "schedule: {name: interleaved-1f1b, stages_per_rank: 2}\n"},
           {{2, 1}, "schedule: {name: looped-bfs, stages_per_rank: 3}\nrecompute: full\n"},
           {{2, 1}, "schedule: zb-v\n"},
           {{2, 1}, "schedule: zb-h1\nrecompute: selective\n"},
           {{2, 1}, "schedule: dualpipe\n"},
           {{2, 1, 2}, "schedule: stp\n"},  // two stages' passes woven
           {{2, 1}, "schedule: {name: 1f1b, offload: full}\n"},
           {{1, 1}, "schedule: {name: seq-1f1b, sequence_splits: 4}\n"}}) {
    SCOPED_TRACE(each.mesh.text() + " " + each.extra);
    expect_equal(train(model_on(each.mesh, kSgd + kOnHost + each.extra)), one);
  }
}

// Of two bytes, with masters in fp32 on the host; clipped.
TEST_F(WeightSlotsTest, MixedPrecisionTrainsAsOnTheDevice) {
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const std::string extra = kSgd + kRounds + "training: {clip_gradients: 0.05}\nprecision: " + precision + "\n";
    const Trained whole = train(model_on({2, 1}, extra)), streamed = train(model_on({2, 1}, extra + kOnHost));
    ASSERT_EQ(streamed.losses.size(), 3U);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(streamed.losses[s], whole.losses[s], 2e-3 * whole.losses[s]);
    expect_close(streamed.state, whole.state, 0.02);
  }
}

// Files hold what runs without slots hold.
TEST_F(WeightSlotsTest, CheckpointsGoOnEverywhere) {
  const std::string plain = model_on({}, kSgd), own = model_on({2, 1}, kSgd + kRounds + kOnHost);
  const Trained one = train(plain, 4);
  expect_close(resumed(own, plain), one.state, 2e-5);
  expect_close(resumed(plain, own), one.state, 2e-5);
  const std::string adam = model_on({2, 1}, kAdam + kRounds + kOnHost);
  expect_bit_equal(resumed(adam, adam), train(adam, 4).state);
}

TEST_F(WeightSlotsTest, EvaluationsAreThoseOfTheDevice) {
  const Folder folder;
  std::string bytes;
  for (int i = 0; i <= 100 * 8; ++i) bytes += {static_cast<char>((i * i + 3 * i) % 46), '\0'};
  folder.write("ids", bytes);
  const auto run = [&](const std::string& extra, int every) {
    const std::string evaluate =
        fmt::format("training: {{evaluate: {{every: {}, steps: 2}}}}\ndata: {{tokens: ids, held_out: 20 %}}\n", every);
    return metrics_of(folder, model_on({2, 1}, kSgd + kRounds + extra + evaluate), 3);
  };
  const auto device = run("", 1), host = run(kOnHost, 1), seldom = run(kOnHost, 3);
  ASSERT_EQ(host.size(), 3U);
  for (std::size_t step = 0; step < 3; ++step)
    for (const char* key : {"loss", "validation_loss"}) {
      const double expected = device[step].at(key).get<double>();
      EXPECT_NEAR(host[step].at(key).get<double>(), expected, 2e-6 * expected) << key;
    }
  EXPECT_EQ(seldom[2].at("loss"), host[2].at("loss")) << "training does not notice";
}

struct SlotsAroundActions : AroundActions {
  WeightSlots* slots;
  bool early;
  SlotsAroundActions(WeightSlots* of, bool ends_early) : slots(of), early(ends_early) {}
  void before_action(std::size_t index, bool evaluates) override {
    slots->before_action(index, evaluates);
    if (early) slots->after_action(index, evaluates);
  }
  void after_action(std::size_t index, bool evaluates) override {
    if (!early) slots->after_action(index, evaluates);
  }
};

// The loss of one step of one rank. `early`: a turn ends before its last pass has run.
double loss_of_step(const PreparedRun& run, bool early) {
  const auto transports = make_local_transports(1);
  std::vector<int> stages(run.layout.stages.size());
  std::iota(stages.begin(), stages.end(), 0);
  RankSite site{run.graph(), run.plan, run.layout, *transports[0]};
  WeightSlots slots(site);
  const SeededParameters parameters(run.graph(), run.layout, stages, 7, false, at::kCPU, 0, nullptr, &slots);
  for (const auto& [root, value] : parameters.trained()) slots.sum_into(root, at::zeros(value.sizes()));
  const DataSource data = [&](int input, std::int64_t sample) -> at::Tensor {
    const Tensor& tensor = run.graph().tensors[static_cast<std::size_t>(input)];
    return (at::arange(tensor.elements(), at::kLong) * 31 + sample * 17).remainder(46).reshape(tensor.shape);
  };
  WorkerOptions options;
  options.seed = 7;
  SlotsAroundActions around(&slots, early);
  options.around = {&around};
  Worker worker(site, parameters, data, options);
  slots.begin_step();
  return worker.step(0).loss_sum;
}

// Where the order and the slots disagree the loss is none.
TEST_F(WeightSlotsTest, WhatIsReadBehindItsTurnIsNoNumber) {
  const Folder folder;
  const std::string file =
      folder.write("s.yaml", model_on({}, kSgd + kOnHost + "schedule: {name: roundpipe, forward_slots: 2, backward_slots: 3}\n"));
  const PreparedRun run(quiet(file, 1));
  const double loss = loss_of_step(run, false);
  EXPECT_GT(loss, 8 * 1.0) << "the sum of eight microbatches' losses, each about log 46";
  EXPECT_LT(loss, 8 * 8.0);
  EXPECT_TRUE(std::isnan(loss_of_step(run, true)) || std::abs(loss_of_step(run, true) - loss) > 0.1);
}

std::int64_t part_of(const DeviceTimeline& device, MemoryUse use) {
  for (const MemoryPart& part : device.static_parts)
    if (part.use == use) return part.bytes.base();
  return 0;
}

// Twelve blocks on one device, in slots of at most two: two slots of weights and the gradients of both are 8 of 12 blocks'
// bytes. Weights, gradients and two moments would be 48.
TEST_F(WeightSlotsTest, TheDeviceHoldsLessThanTheWeights) {
  const auto measured = [](const std::string& extra) {
    return train(model_on({}, kAdam + "schedule: {name: roundpipe, forward_slots: 6, backward_slots: 7}\n" + extra, 64, 12), 2)
        .timeline.devices.at(0);
  };
  const DeviceTimeline whole = measured(""), streamed = measured(kOnHost);
  const std::int64_t weights = part_of(whole, MemoryUse::Parameters);
  ASSERT_GT(weights, 12 * 12 * 64 * 64 * 4);
  RecordProperty("bytes", fmt::format("weights {}, peaks {} and {}", weights, whole.peak.base(), streamed.peak.base()));
  EXPECT_LT(streamed.peak.base(), weights);
  EXPECT_GT(whole.peak.base(), 3 * weights);
  EXPECT_LT(part_of(streamed, MemoryUse::Parameters), weights / 2);
  EXPECT_LT(part_of(streamed, MemoryUse::Optimizer), weights / 50) << "the host's";
}

using Counts = std::map<std::string, int>;

// Copies of weights and gradients on device 0, by stage.
Counts copies(const Timeline& timeline) {
  Counts counts;
  for (const Span& span : timeline.spans)
    if (span.device == 0 && span.label.empty() &&
        ((span.lane == Lane::Copy && span.action.kind == ActionKind::Unshard) ||
         (span.lane == Lane::Data && span.action.kind == ActionKind::Offload && span.action.microbatch < 0)))  // gradients
      ++counts[fmt::format("{} {}", name_of(span.action.kind), span.action.stage)];
  return counts;
}

Counts predicted(const std::string& scenario) {
  const Folder folder;
  const Experiment experiment(load_scenario(folder.write("s.yaml", with_rates(scenario))));
  return copies(predict(experiment, experiment.plan("")).timeline);
}

TEST_F(WeightSlotsTest, TimelinesShowWhatIsPredicted) {
  for (const std::string& schedule : {kRounds, std::string("schedule: {name: looped-bfs, stages_per_rank: 3}\n")}) {
    SCOPED_TRACE(schedule);
    const std::string scenario = model_on({2, 1}, kSgd + kOnHost + schedule);
    const Trained run = train(scenario, 1);
    EXPECT_FALSE(copies(run.timeline).empty());
    EXPECT_EQ(copies(run.timeline), predicted(scenario));
  }
}

TEST_F(WeightSlotsTest, RefusesOtherStateOnTheHost) {
  const Folder folder;
  for (const std::string& lines : {kAdam + "offload: {optimizer: cpu}\n", kAdam + kOnHost + "offload: {gradients: cpu}\n"})
    EXPECT_THAT(error_of_step(folder, model_on({}, lines)), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(error_of_step(folder, model_on({}, kAdam + "offload: {optimizer: cpu}\n")),
              HasSubstr("keeps optimizer and parameters on the devices, or both on the host"));
}

}  // namespace
}  // namespace panpipe::exec
