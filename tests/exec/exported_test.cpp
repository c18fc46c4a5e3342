// Exported models over a pipeline give what PyTorch gives in one process: losses, gradients, running statistics.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "costmodel/workload/archive.hpp"
#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/profile/profile_rank.hpp"
#include "tests/exec/exported_check.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::exec {
namespace {

// fp32: sums in another order differ in the last bits.
constexpr double kTolerance = 1e-5;

std::string folder_of_models() {
  const char* made = std::getenv("PANPIPE_EXPORTED");
  return made ? made : "";
}

// Exported just now where Python and PyTorch are, else as they were recorded.
std::string path_of(const std::string& model) {
  const std::string folder = folder_of_models();
  const std::string fresh = folder + "/" + model;
  return std::ifstream(fresh + ".safetensors") ? fresh : folder + "/recorded/" + model;
}

// A step of the archive over two ranks is the step of the reference.
void expect_reference(const OperatorGraph& graph, const Reference& reference) {
  for (const Operator& op : graph.operators) EXPECT_NE(row_of(op).name, "aten::") << op.target << " has no row";
  const StepOutcome found = train(graph, plan_of(graph, {.schedule = "zb-h1", .ranks = 2}, reference.microbatches), reference);
  const Difference difference = compare(graph, reference.expected, found);
  EXPECT_LE(difference.loss, kTolerance);
  EXPECT_LE(difference.gradient, kTolerance) << difference.worst_gradient;
  EXPECT_LE(difference.buffer, kTolerance) << difference.worst_buffer;
  EXPECT_EQ(difference.missing, "");
}

class Exported : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    graph_ = load_exported(path_of(GetParam()) + ".pt2", 2);
    reference_ = read_reference(path_of(GetParam()) + ".safetensors");
    ASSERT_EQ(reference_.microbatches, 4);
    ASSERT_GT(reference_.expected.gradients.size(), 10u);
  }
  void expect_equal(const StepOutcome& expected, const Cut& cut) {
    SCOPED_TRACE(GetParam() + ", " + cut.text());
    const StepOutcome found = train(graph_, plan_of(graph_, cut, reference_.microbatches), reference_);
    const Difference difference = compare(graph_, expected, found);
    EXPECT_LE(difference.loss, kTolerance);
    EXPECT_LE(difference.gradient, kTolerance) << difference.worst_gradient;
    EXPECT_LE(difference.buffer, kTolerance) << difference.worst_buffer;
    EXPECT_EQ(difference.missing, "");
  }
  // PyTorch draws random numbers from another stream, so a random model is compared with itself in one process.
  StepOutcome expected() {
    return GetParam() == "dropout" ? train(graph_, plan_of(graph_, {}, reference_.microbatches), reference_)
                                   : reference_.expected;
  }

  OperatorGraph graph_;
  Reference reference_;
};

TEST_P(Exported, EqualsPyTorchOnEverySchedule) {
  const StepOutcome one = expected();
  if (GetParam() == "dropout") {
    EXPECT_NE(one.loss, reference_.expected.loss) << "nothing was dropped";
  }
  expect_equal(one, {.schedule = "gpipe", .ranks = 1});
  for (const int ranks : {2, 4})
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) expect_equal(one, {.schedule = schedule, .ranks = ranks});
  expect_equal(one, {.schedule = "interleaved-1f1b", .ranks = 2, .stages_per_rank = 2});
}

TEST_P(Exported, RecomputeChangesNothing) {
  const StepOutcome one = expected();
  expect_equal(one, {.schedule = "1f1b", .ranks = 2, .recompute = Recompute::Full});
  expect_equal(one, {.schedule = "zb-h1", .ranks = 4, .recompute = Recompute::Full});
}

TEST_P(Exported, EveryCutIsValid) {
  const StepOutcome one = expected();
  const int units = static_cast<int>(graph_.units.size());
  ASSERT_GE(units, 8);
  const int step = std::max(1, units / 16);
  for (int start = 1; start < units; start += step) expect_equal(one, {.schedule = "1f1b", .ranks = 2, .starts = {start}});
}

// Where Python is, the recorded files would else never be read: they must not rot.
TEST(RecordedModels, EqualPyTorchAsRecorded) {
  for (const std::string model : {"gpt", "llama", "bert", "vit", "unet", "batchnorm", "odd"}) {
    SCOPED_TRACE(model);
    const std::string path = folder_of_models() + "/recorded/" + model;
    expect_reference(load_exported(path + ".pt2", 2), read_reference(path + ".safetensors"));
  }
}

// Exported by PyTorch 2.15 and trained by whatever LibTorch this is. The same seed made weights and data of both releases: the
// program is the same, operator by operator, and so is the step.
TEST(RecordedModels, OfPyTorch215IsReadAndTrained) {
  const std::string old = folder_of_models() + "/recorded/gpt", path = folder_of_models() + "/recorded_by_2.15/gpt.pt2";
  const std::string bytes = test::read_file(path);
  EXPECT_THAT(bytes, testing::HasSubstr(R"("schema_version": {"major": 8, "minor": 20})"));
  EXPECT_THAT(bytes, testing::HasSubstr(R"("torch_version": "2.15.0)"));
  const OperatorGraph graph = load_exported(path, 2);
  EXPECT_EQ(graph.to_text(), load_exported(old + ".pt2", 2).to_text());
  expect_reference(graph, read_reference(old + ".safetensors"));
}

std::string two_replicas(const std::string& model, const std::string& parallel, const std::string& precision) {
  return "panpipe: 1\ncluster: {devices: 2, memory: 4 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\nworkload: {pt2: " +
         path_of(model) + ".pt2}\nbatch: {micro: 2, microbatches: 2}\nparallel: {data: 2" + parallel +
         "}\nprecision: " + precision + "\noptimizer: {name: sgd, learning_rate: 0.1}\n";
}

// Gathered unit by unit: an exported program has no blocks. Also with running statistics, made again.
TEST(ExportedTraining, DividedParametersTrainAsWholeOnes) {
  for (const std::string model : {"gpt", "batchnorm", "odd"}) {
    SCOPED_TRACE(model);
    Trained whole = train(two_replicas(model, "", "fp32"), 2);
    whole.state.erase("lifted_tensor_0");  // a constant with infinities
    for (const std::string more : {", zero: 2}", ", zero: 3}", ", zero: 3}\nrecompute: full"}) {
      SCOPED_TRACE(more);
      std::string text = two_replicas(model, "", "fp32");
      text.replace(text.find("data: 2}") + 7, 1, more);
      Trained divided = train(text, 2);
      divided.state.erase("lifted_tensor_0");
      ASSERT_EQ(divided.losses.size(), 2u);
      for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(divided.losses[s], whole.losses[s], 1e-5 * whole.losses[s]);
      expect_close(divided.state, whole.state, 2e-5);
    }
  }
}

// Running statistics take each microbatch once, and none of an evaluation, where a stage is several segments: gathered group by
// group, with passes that run again as R of the order. Batch normalizations count their microbatches: two steps of two.
TEST(ExportedTraining, StatisticsCountMicrobatchesOfTrainingOnce) {
  const Folder folder;
  const at::Tensor pixels = at::sin(at::arange(16 * 3 * 64, at::kFloat)).reshape({16, 3, 8, 8});
  write_safetensors(folder.file("d.safetensors"), {{"pixels", pixels}, {"labels", at::arange(16, at::kLong).remainder(4)}});
  const std::string data = fmt::format("data: {{tensors: {0}, validation: {0}}}\n", folder.file("d.safetensors"));
  const Trained whole = train(two_replicas("batchnorm", "", "fp32") + data, 2);
  const std::string again = ", zero: 3}\nrecompute: full\nschedule: {name: again, csv: [\"0F0,0F1,0R0,0B0,0R1,0B1\"]}\n",
                    evaluated = ", zero: 3}\ntraining: {evaluate: {every: 1, steps: 2}}\n";
  int counts = 0;
  for (const std::string& more : {again, evaluated}) {
    SCOPED_TRACE(more);
    std::string text = two_replicas("batchnorm", "", "fp32") + data;
    const Trained segments = train(text.replace(text.find("data: 2}") + 7, 1, more), 2);
    EXPECT_EQ(segments.losses.size(), 2u);
    expect_close(segments.state, whole.state, 2e-5);
    for (const auto& [name, value] : segments.state) {
      if (!name.ends_with("num_batches_tracked")) continue;
      ++counts;
      EXPECT_EQ(value.item<std::int64_t>(), 4) << name;
    }
  }
  EXPECT_GE(counts, 2 * 9) << "of nine normalizations";
}

// In-place activations and sums, on values that are made again: the same bits as where everything is kept.
TEST(ExportedTraining, WhatIsWrittenInPlaceIsMadeAgain) {
  for (const std::string model : {"unet", "batchnorm"}) {
    const Trained kept = train(two_replicas(model, "", "fp32"), 2);
    for (const std::string kinds : {"elementwise", "norms, elementwise", "norms, elementwise, products"}) {
      SCOPED_TRACE(model + ": " + kinds);
      const Trained again = train(two_replicas(model, "", "fp32") + "recompute: {operators: [" + kinds + "]}\n", 2);
      EXPECT_EQ(again.losses, kept.losses);
      expect_bit_equal(again.gradients, kept.gradients);
      expect_bit_equal(again.state, kept.state);
    }
  }
}

TEST(ExportedTraining, CopiesOfWholeWeightsAreRefusedWhereWeightsComeAndGo) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", two_replicas("gpt", ", zero: 3", "bf16"));
  EXPECT_EQ(run_threads(file, quiet(file, 1)).error(),
            file +
                ":5:27: error: the exported model is of float32: precision bf16 keeps a copy of every weight, which zero 3 "
                "cannot free\n  at parallel.zero\n    5 | parallel: {data: 2, zero: 3}\n      |                           ^\n"
                "  help: run with parallel.zero 2, or with precision fp32, or export the model in two bytes");
  const std::string two = folder.write("two.yaml", two_replicas("gpt", ", zero: 2", "bf16"));
  EXPECT_EQ(run_threads(two, quiet(two, 1)).error(), "");
}

// Of an fp32 program on one rank, by unit.
std::map<std::string, ProfiledUnit> profiled(const std::string& precision) {
  ProfileRequest request;
  const Folder folder;
  request.scenario =
      folder.write("profiled.yaml",
                   "panpipe: 1\ncluster: {devices: 1, memory: 4 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\nworkload: "
                   "{pt2: " +
                       path_of("gpt") + ".pt2}\nbatch: {micro: 2, microbatches: 1}\nprecision: " + precision + "\n");
  request.transport = "local";
  request.repetitions = 1;
  request.seconds = 0.1;
  std::map<std::string, ProfiledUnit> units;
  for (ProfiledUnit& unit : profile_rank(PreparedProfile(request), *make_local_transports(1).front()).units)
    units[unit.name] = unit;
  return units;
}

// A run of an fp32 program in bf16 computes its products under autocast; so does its profile. An MLP (hidden 16) of 2 x 12 rows
// keeps what goes into the activation and what comes out, 4 x 16 each, for its products. In fp32 it keeps its input too, which is
// another unit's tensor; in bf16 it makes a cast of it.
TEST(ExportedProfile, ComputesInThePrecisionOfTheRun) {
  const ProfiledUnit single = profiled("fp32").at("h.1.mlp"), mixed = profiled("bf16").at("h.1.mlp");
  EXPECT_EQ(single.saved, Bytes(2 * 24 * 64 * 4));
  EXPECT_EQ(single.keeps, std::vector<int>{0});
  EXPECT_EQ(mixed.saved, Bytes(2 * 24 * 64 * 2 + 24 * 16 * 2));
  EXPECT_EQ(mixed.keeps, std::vector<int>{});
}

INSTANTIATE_TEST_SUITE_P(Models, Exported, testing::Values("gpt", "llama", "bert", "vit", "unet", "batchnorm", "odd", "dropout"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace panpipe::exec
