// Evaluation on held-out data: its loss, and that training does not notice it.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "exec/engine/parameters.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/training/synthetic_data.hpp"
#include "exec/engine/worker.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

std::string ids_file(const Folder& folder, const std::string& name, int samples, int factor) {
  std::string bytes;
  for (int i = 0; i <= samples * 8; ++i) {
    const int token = (factor * i * i + 3 * i) % 48;
    bytes += static_cast<char>(token);
    bytes += '\0';
  }
  return folder.write(name, bytes);
}

struct Case {
  std::string name;
  int pipeline = 1, data = 1, tensor = 1;
  std::string extra{}, more{};  // keys of the scenario; of `parallel`
  int context = 1;
};

std::string scenario_of(const Case& one, const std::string& dropout, const std::string& extra) {
  return fmt::format(
      "panpipe: 1\ncluster: {{devices: {}, memory: 4 GiB, link: {{latency: 1 us, bandwidth: 10 GB/s}}}}\n"
      "workload: {{model: gpt, layers: 4, hidden: 16, heads: 2, sequence: 8, vocabulary: 48{}}}\n"
      "batch: {{micro: 2, microbatches: {}}}\nparallel: {{pipeline: {}, data: {}, tensor: {}, context: {}{}}}\n{}{}",
      one.pipeline * one.data * one.tensor * one.context, dropout, 8 / one.data, one.pipeline, one.data, one.tensor, one.context,
      one.more, one.extra, extra);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one process"},
      {"1f1b", 2},
      {"mesh", 2, 2, 2, "", ", zero: 1"},
      {"divided gradients", 2, 2, 1, "", ", zero: 2"},
      {"divided parameters", 2, 2, 1, "", ", zero: 3"},
      {"sequence parallel", 2, 1, 2, "schedule: zb-h1\n", ", sequence_parallel: true"},
      {"woven", 2, 1, 2, "schedule: stp\n"},
      {"two paths", 2, 1, 1, "schedule: dualpipe\n"},
      {"slices", 2, 1, 1, "schedule: {name: seq-1f1b, sequence_splits: 4}\n"},
      {"slices of shards", 1, 1, 2, "schedule: {name: seq-1f1b, sequence_splits: 2}\n"},
      {"shared sequences", 2, 1, 1, "", "", 2},
      {"gathered sequences", 1, 1, 2, "", ", context_exchange: all-gather, sequence_parallel: true", 2},
      {"exchanged heads", 1, 2, 1, "", ", context_exchange: ulysses, zero: 1", 2},
      {"recompute", 2, 1, 1, "recompute: full\n"},
      {"selective", 2, 1, 1, "recompute: selective\n"},
      {"offload", 2, 1, 1, "schedule: {name: 1f1b, offload: full}\n"},
      {"several stages", 2, 1, 1, "schedule: {name: interleaved-1f1b, stages_per_rank: 2}\n"},
      {"stages of one way", 2, 1, 1, "schedule: {name: roundpipe, forward_slots: 1, backward_slots: 3}\n"},
  };
  return all;
}

// Against training on the same samples with a rate of 0 and no dropout, whose loss is the mean over a step's microbatches: an
// evaluation of two batches is the mean of two such steps. With dropout of one half, training itself sees another loss.
TEST(Evaluation, LossIsTheForwardsLossWithoutDropout) {
  const Folder folder;
  ids_file(folder, "a", 64, 1);
  ids_file(folder, "b", 40, 5);
  const std::string still = "optimizer: {name: sgd, learning_rate: 0}\n";
  const std::string plain = folder.write("p.yaml", scenario_of(cases()[0], "", still + "data: {tokens: b}\n"));
  const Outcome reference = run_threads(plain, quiet(plain, 3));
  ASSERT_EQ(reference.error(), "");
  const double expected = (reference.losses()[0] + reference.losses()[1]) / 2;
  ASSERT_GT(std::abs(expected - reference.losses()[2]), 1e-4);
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const std::string file = folder.write(
        "s.yaml", scenario_of(one, ", dropout: 0.5",
                              still + "training: {evaluate: {every: 2, steps: 2}}\ndata: {tokens: a, validation: b}\n"));
    RunRequest request = quiet(file, 2);
    request.metrics = folder.file("m.jsonl");
    const Outcome outcome = run_threads(file, request);
    ASSERT_EQ(outcome.error(), "");
    const auto lines = metrics_lines(request.metrics);
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_FALSE(lines[0].contains("validation_loss"));
    EXPECT_NEAR(lines[1].at("validation_loss").get<double>(), expected, 2e-6 * expected);
    EXPECT_GT(std::abs(lines[1].at("loss").get<double>() - reference.losses()[1]), 1e-4) << "dropout";
  }
}

// What a failed evaluation had begun is no part of the worker: a step behind it is that of a worker that never evaluated.
TEST(Evaluation, AFailureLeavesTheWorkerAsItWas) {
  const Folder folder;
  const PreparedRun run(quiet(folder.write("s.yaml", small_gpt(1, 1, 2)), 1));
  const auto transports = make_local_transports(1);
  const DataSource data = synthetic_data(run.graph(), 7);
  const auto step_after = [&](const std::function<void(Worker&)>& before) {
    const SeededParameters parameters(run.graph(), run.layout, {0}, 7);
    RankSite site{run.graph(), run.plan, run.layout, *transports[0]};
    Worker worker(site, parameters, data, {.first_sample = 3});
    before(worker);
    const double held_out = worker.evaluate(0, data);
    return std::pair(worker.step(2).loss_sum, held_out);
  };
  const auto expected = step_after([](Worker&) {});
  const auto found = step_after([&](Worker& worker) {
    EXPECT_THROW(worker.evaluate(1,
                                 [&](int input, std::int64_t sample) {
                                   if (sample == 3) throw std::runtime_error("the file ends early");
                                   return data(input, sample);
                                 }),
                 std::runtime_error);
  });
  EXPECT_GT(expected.first, 0);
  EXPECT_EQ(found, expected);
}

TEST(Evaluation, TrainingDoesNotNotice) {
  const Folder folder;
  ids_file(folder, "a", 50, 1);
  const std::string about = "optimizer: {name: adamw, learning_rate: 0.01}\ndata: {tokens: a, shuffle: true, held_out: 20 %}\n";
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const auto run = [&](const std::string& name, const std::string& training) {
      const std::string file = folder.write(
          "s.yaml", scenario_of(one, ", dropout: 0.1", about + fmt::format("training: {{clip_gradients: 1{}}}\n", training)));
      RunRequest request = with_checkpoints(file, 3, folder.file(name));
      request.metrics = folder.file(name + ".jsonl");
      const Outcome outcome = run_threads(file, request);
      EXPECT_EQ(outcome.error(), "");
      return outcome.losses();
    };
    const std::vector<double> without = run("without", "");
    const std::vector<double> with = run("with", ", evaluate: {every: 1, steps: 2}");
    ASSERT_EQ(without.size(), 3u);
    EXPECT_EQ(with, without);
    expect_bit_equal(tensors_of(step_folder(folder.file("with"), 3)), tensors_of(step_folder(folder.file("without"), 3)));
    const auto lines = metrics_lines(folder.file("with.jsonl"));
    EXPECT_NE(lines.at(0).at("validation_loss"), lines.at(2).at("validation_loss")) << "the model learns";
    std::filesystem::remove_all(folder.file("with"));
    std::filesystem::remove_all(folder.file("without"));
  }
}

// 20 samples held out are one step of 16 and a part: one batch, unless more are asked for, and then the first ones come again.
TEST(Evaluation, TakesWholeBatchesOfWhatIsHeldOut) {
  const Folder folder;
  ids_file(folder, "a", 100, 1);
  const auto loss = [&](const std::string& evaluate) {
    const std::string scenario = scenario_of(cases()[0], "",
                                             "optimizer: {name: sgd, learning_rate: 0}\ndata: {tokens: a, held_out: 20 %}\n" +
                                                 fmt::format("training: {{evaluate: {}}}\n", evaluate));
    return metrics_of(folder, scenario, 1).at(0).at("validation_loss").get<double>();
  };
  const double one = loss("{every: 1, steps: 1}");
  EXPECT_EQ(loss("{every: 1}"), one);
  EXPECT_EQ(loss("{every: 1, steps: 5}"), loss("{every: 1, steps: 10}")) << "80 samples are four times the 20";
  EXPECT_GT(std::abs(loss("{every: 1, steps: 5}") - one), 1e-5);
}

struct Kept : ParameterStore {
  at::Tensor tensor(int graph_tensor) const override { return values.at(graph_tensor); }
  std::map<int, at::Tensor> values;
};

// A batch normalization in training mode learns its statistics in the forward; an evaluation takes what was learnt and adds
// nothing.
TEST(Evaluation, TakesTheStatisticsThatNormalizationsHaveLearnt) {
  OperatorGraph graph;
  const auto add = [&](const std::string& name, TensorRole role, Shape shape, bool written = false) {
    Tensor tensor;
    tensor.name = name, tensor.role = role, tensor.dtype = DType::Float32, tensor.shape = std::move(shape),
    tensor.written = written;
    tensor.requires_gradient = role == TensorRole::Parameter || role == TensorRole::Activation;
    graph.tensors.push_back(tensor);
    return static_cast<int>(graph.tensors.size()) - 1;
  };
  const int x = add("x", TensorRole::Input, {4, 2}), weight = add("weight", TensorRole::Parameter, {2});
  const int bias = add("bias", TensorRole::Parameter, {2}), mean = add("mean", TensorRole::Buffer, {2}, true);
  const int variance = add("variance", TensorRole::Buffer, {2}, true), y = add("y", TensorRole::Activation, {4, 2});
  Operator norm;
  norm.target = "aten::batch_norm";
  norm.arguments = {TensorRef{x}, TensorRef{weight}, TensorRef{bias}, TensorRef{mean}, TensorRef{variance}, true, 0.1, 0.0, true};
  norm.outputs = {y};
  graph.operators = {norm};
  graph.tensors[y].producer = 0;
  Kept kept;
  kept.values = {{weight, at::full({2}, 3.0).requires_grad_(true)},
                 {bias, at::full({2}, 1.0).requires_grad_(true)},
                 {mean, at::zeros({2})},
                 {variance, at::ones({2})}};
  Stage stage(graph, 0, 1, {y}, kept, std::vector<bool>(graph.tensors.size(), false));
  const at::Tensor batch = at::arange(8, at::kFloat).reshape({4, 2});
  CallContext context;
  stage.forward(0, {batch}, context);
  // Of 0, 2, 4, 6 the mean is 3 and the variance, of four less one, 20/3; momentum 0.1.
  EXPECT_TRUE(at::allclose(kept.values[mean], at::tensor({0.3, 0.4}, at::kFloat)));
  EXPECT_TRUE(at::allclose(kept.values[variance], at::full({2}, 0.9 + 2.0 / 3)));
  const at::Tensor learnt = kept.values[mean].clone();
  context.evaluates = true;
  const at::Tensor found = stage.forward(1, {batch}, context).front();
  EXPECT_TRUE(at::allclose(found, (batch - learnt) / std::sqrt(0.9 + 2.0 / 3) * 3 + 1));
  EXPECT_TRUE(at::equal(kept.values[mean], learnt));
  EXPECT_FALSE(found.requires_grad());
}

// Names and shapes of the validation file are checked before the first step, and named by its key.
TEST(Evaluation, WrongValidationFilesAreRefused) {
  const Folder folder;
  ids_file(folder, "a", 20, 1);
  folder.write("b", "123");
  const std::string file = folder.write("s.yaml", small_gpt(1, 1, 1, "data: {tokens: a, validation: b}\n"));
  EXPECT_THAT(run_threads(file, quiet(file, 1)).error(),
              testing::HasSubstr(file + ":6:31: error: a file of 3 bytes does not hold 16-bit tokens: the last one is cut\n"
                                        "  at data.validation\n"));
  std::string bytes(40, '\0');
  bytes[22] = 48;
  folder.write("b", bytes);
  const std::string late = folder.write(
      "l.yaml", small_gpt(2, 1, 1, "data: {tokens: a, validation: b}\ntraining: {evaluate: {every: 1, steps: 1}}\n"));
  EXPECT_THAT(run_threads(late, quiet(late, 2)).error(),
              testing::HasSubstr(late + ":6:31: error: token 11 has the id 48; the model's vocabulary ends at 47\n"));
}

}  // namespace
}  // namespace panpipe::exec
