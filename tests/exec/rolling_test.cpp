// Runs without a flush between steps: PipeDream-2BW against a reference that knows neither ranks nor schedules, and restarts.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "exec/engine/parameters.hpp"
#include "exec/engine/stage/operator_program.hpp"
#include "exec/engine/training/lagging_reports.hpp"
#include "exec/engine/training/training_data.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

constexpr double kRate = 0.5;  // large: an update more or less shows in the next loss

std::string scenario_of(int pipeline, int microbatches, const std::string& extra, const std::string& family = "pipedream-2bw",
                        int data = 1) {
  return small_gpt(pipeline, data, microbatches, fmt::format("schedule: {}\n{}\n", family, extra));
}

const std::string kPlain = fmt::format("optimizer: {{name: sgd, learning_rate: {}}}", kRate);

// W(t + 1) = W(t) - rate x gradient of W(t - 1), by autograd alone: the whole model is one function of weights and data.
std::vector<double> reference(const std::string& scenario, int steps) {
  const Folder folder;
  const PreparedRun run(quiet(folder.write("s.yaml", scenario), steps));
  const OperatorGraph& graph = run.graph();
  const DataSource data = training_data(run).training;
  const OperatorProgram model(graph, 0, static_cast<int>(graph.operators.size()), {graph.loss});
  const SeededParameters drawn(graph, run.layout, {0}, static_cast<std::uint64_t>(run.experiment.scenario.seed));
  std::map<int, at::Tensor> latest, before;
  for (const auto& [root, value] : drawn.trained()) latest[root] = before[root] = value.detach().clone();
  std::vector<double> losses;
  std::int64_t sample = 0;
  for (int step = 0; step < steps; ++step) {
    std::map<int, at::Tensor> weights;
    for (const auto& [root, value] : before) weights[root] = value.clone().requires_grad_(true);
    at::Tensor sum = at::zeros({});
    for (int m = 0; m < run.layout.microbatches; ++m, ++sample) {
      std::vector<at::Tensor> values;
      for (const int input : model.inputs()) {
        const TensorRole role = graph.tensors[input].role;
        const auto weight = weights.find(root_of(graph, input));
        values.push_back(role == TensorRole::Parameter && weight != weights.end()      ? weight->second
                         : role == TensorRole::Parameter || role == TensorRole::Buffer ? drawn.tensor(input)
                                                                                       : data(input, sample));
      }
      CallContext context;
      context.sample = sample;
      sum = sum + model.run(std::move(values), context).front();
    }
    const at::Tensor loss = sum / run.layout.microbatches;
    losses.push_back(loss.item<double>());
    loss.backward();
    const at::NoGradGuard no_graph;
    before = latest;
    for (auto& [root, value] : latest)
      if (weights.at(root).grad().defined()) value = value - kRate * weights.at(root).grad();
  }
  return losses;
}

std::vector<double> losses_of_run(const std::string& scenario, int steps) { return losses_of(Folder(), scenario, steps); }

void expect_losses(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t s = 0; s < expected.size(); ++s) EXPECT_NEAR(found[s], expected[s], 2e-5 * expected[s]) << "step " << s + 1;
}

TEST(TwoVersions, LossesAreTheReferences) {
  constexpr int kSteps = 6;
  const std::vector<double> expected = reference(scenario_of(1, 4, kPlain, "gpipe"), kSteps);
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    expect_losses(losses_of_run(scenario_of(ranks, 4, kPlain), kSteps), expected);
  }
  // With a flush the third step knows one update more.
  const std::vector<double> fresh = losses_of_run(scenario_of(2, 4, kPlain, "1f1b"), kSteps);
  EXPECT_NEAR(fresh[0], expected[0], 1e-5 * fresh[0]);
  EXPECT_GT(std::abs(fresh[1] - expected[1]), 1e-3 * fresh[1]);
}

// However the work is divided, the weights and both versions in the checkpoint are one rank's.
TEST(TwoVersions, EveryDivisionIsOneRanks) {
  const std::string momentum = "optimizer: {name: momentum, learning_rate: 0.1}";
  const Trained one = train(scenario_of(1, 4, momentum), 4);
  for (const auto& [ranks, data, more] :
       {std::tuple(2, 1, ""), {3, 1, ""}, {2, 1, "\nrecompute: full"}, {2, 1, "\nrecompute: selective"}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} replicas{}", ranks, data, more));
    expect_equal(train(scenario_of(ranks, 4, momentum + more, "pipedream-2bw", data), 4), one);
  }
  const Trained replicas = train(scenario_of(1, 4, momentum, "pipedream-2bw", 2), 4);
  expect_equal(train(scenario_of(2, 4, momentum, "pipedream-2bw", 2), 4), replicas);
  expect_equal(train(scenario_of(2, 4, momentum + "\nrecompute: full", "pipedream-2bw", 2), 4), replicas);
}

TEST(TwoVersions, MixedPrecisionKeepsTwoVersionsOfTwoBytes) {
  const std::string extra = "optimizer: {name: adamw, learning_rate: 0.01}\nprecision: bf16";
  const Trained one = train(scenario_of(1, 4, extra), 4), two = train(scenario_of(2, 4, extra), 4);
  ASSERT_EQ(one.losses.size(), two.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(two.losses[s], one.losses[s], 2e-3 * one.losses[s]);
  int versions = 0;
  for (const auto& [name, value] : two.state) {
    if (!name.ends_with(".before_update")) continue;
    EXPECT_EQ(value.scalar_type(), at::kBFloat16) << name;
    ++versions;
  }
  EXPECT_GT(versions, 4);
}

// The pipeline drains before a checkpoint, which has both versions: nobody sees where the run was interrupted.
TEST(TwoVersions, RestartsWhereItStopped) {
  const std::string scenario = scenario_of(2, 4, "optimizer: {name: adamw, learning_rate: 0.01}");
  const Trained straight = train(scenario, 4);
  expect_bit_equal(resumed(scenario, scenario), straight.state);
  // Drains in between change nothing either.
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario);
  EXPECT_EQ(run_threads(file, with_checkpoints(file, 4, folder.file("ck"), 1)).error(), "");
  expect_bit_equal(tensors_of(step_folder(folder.file("ck"), 4)), straight.state);
}

TEST(TwoVersions, TheLogHasEveryStep) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario_of(2, 4, kPlain));
  RunRequest request = quiet(file, 5);
  request.metrics = folder.file("metrics");
  const Outcome outcome = run_threads(file, request);
  EXPECT_EQ(outcome.error(), "");
  const std::vector<nlohmann::json> lines = metrics_lines(request.metrics);
  ASSERT_EQ(lines.size(), 5u);
  for (std::size_t s = 0; s < lines.size(); ++s) {
    EXPECT_EQ(lines[s]["step"], s + 1);
    EXPECT_NEAR(lines[s]["loss"].get<double>(), outcome.losses()[s], 1e-6);
    EXPECT_GT(lines[s]["gradient_norm"].get<double>(), 0);
  }
}

// Rows number the microbatches of two steps: from 4 on those of odd ones. Spans and faults have the numbers of one step, 0 to 3.
TEST(TwoVersions, SpansAndFaultsNumberMicrobatchesByTheirStep) {
  const std::string scenario = scenario_of(2, 4, kPlain);
  const Trained trained = train(scenario, 3);
  std::set<int> numbers;
  for (const Span& span : trained.timeline.spans)
    if (span.action.microbatch >= 0) numbers.insert(span.action.microbatch);
  EXPECT_EQ(numbers, (std::set<int>{0, 1, 2, 3}));
  const Folder folder;
  setenv("PANPIPE_FAULT", "rank=1,step=1,action=1F0,kind=nan", 1);
  const std::string error = run_threads(folder.write("s.yaml", scenario), quiet(folder.file("s.yaml"), 3)).error();
  unsetenv("PANPIPE_FAULT");
  EXPECT_NE(error.find("step 2: the loss of microbatch 0 is nan"), std::string::npos) << error;
}

TEST(TwoVersions, RefusesWhatDividesTheWeights) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario_of(2, 4, kPlain, "pipedream-2bw", 2));
  RunRequest request = quiet(file, 1);
  request.overrides = {"parallel.zero=2"};
  EXPECT_NE(run_threads(file, request).error().find("steps without a flush and ZeRO 2 and 3 do not go together"),
            std::string::npos);
}

TEST(TwoVersions, RefusesFewerMicrobatchesThanRanks) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario_of(3, 2, kPlain));
  EXPECT_NE(
      run_threads(file, quiet(file, 1)).error().find("pipedream-2bw with as many microbatches in a step as ranks: 3, not 2"),
      std::string::npos);
}

TEST(StepReport, RefusesARankThatReportsOtherNumbers) {
  const StepReport mine{.loss_sum = 2, .seconds = 3};
  EXPECT_EQ(mine.of_all({mine.numbers(), {1, 5, 0, 1}}).loss_sum, 7);
  EXPECT_NE(test::fault_of<InternalError>([&] {
              mine.of_all({mine.numbers(), {0, 5, 0}});
            }).find("rank 1 reports 3 numbers of a step, not 4"),
            std::string::npos);
}

// --- updates that are checked later ---

// The same run with and without post-validation ends with the same bits, however often the update is taken back.
void expect_as_ordered(const std::string& family, int ranks, int data, const std::string& extra) {
  SCOPED_TRACE(fmt::format("{} on {} ranks, {} replicas, {}", family, ranks, data, extra));
  const auto scenario = [&](const char* validated) {
    return small_gpt(ranks, data, 4, fmt::format("schedule: {{name: {}, post_validation: {}}}\n{}\n", family, validated, extra));
  };
  const Trained late = train(scenario("true"), 5), ordered = train(scenario("false"), 5);
  EXPECT_EQ(late.losses, ordered.losses);
  expect_bit_equal(late.state, ordered.state);
  if (extra.find("fp16") == std::string::npos)
    expect_bit_equal(late.gradients, ordered.gradients);  // overflowed ones are no numbers
}

std::string clipped_at(double norm) {
  return fmt::format("optimizer: {{name: adamw, learning_rate: 0.01}}\ntraining: {{clip_gradients: {}}}", norm);
}

TEST(PostValidation, ClipsAsTheOrdinaryOrder) {
  expect_as_ordered("1f1b", 2, 1, clipped_at(1e-3));  // every update is taken back
  expect_as_ordered("1f1b", 3, 1, clipped_at(1e9));   // none is
  // Some are: between the largest and the smallest norm of the run.
  double least = 1e9, most = 0;
  for (const nlohmann::json& line : metrics_of(Folder(), small_gpt(2, 1, 4, clipped_at(1e9)), 5)) {
    least = std::min(least, line["gradient_norm"].get<double>());
    most = std::max(most, line["gradient_norm"].get<double>());
  }
  ASSERT_LT(least, most);
  expect_as_ordered("zb-h1", 2, 1, clipped_at((least + most) / 2));
}

TEST(PostValidation, EveryKindOfOrder) {
  for (const char* family : {"gpipe", "zb-h2", "interleaved-1f1b", "zb-v", "looped-bfs"})
    expect_as_ordered(family, 2, 1, clipped_at(1e-3));
  expect_as_ordered("zb-h1", 2, 2, clipped_at(1e-3));
  expect_as_ordered("1f1b", 2, 1, clipped_at(1e-3) + "\nrecompute: full");
}

// A scale of 2^40 overflows fp16 in every step: each is taken back, and none is left. 2^19 does so in the first steps.
TEST(PostValidation, SkipsWhatOverflows) {
  for (const char* scale : {"1099511627776", "524288"})
    expect_as_ordered("1f1b", 2, 1,
                      fmt::format("optimizer: {{name: adamw, learning_rate: 0.01}}\nprecision: fp16\n"
                                  "training: {{loss_scale: {{initial: {}}}, clip_gradients: 0.5}}",
                                  scale));
}

TEST(PostValidation, TheLogKnowsWhichStepsWereSkipped) {
  const auto lines =
      metrics_of(Folder(),
                 small_gpt(2, 1, 4,
                           "schedule: {name: 1f1b, post_validation: true}\noptimizer: {name: adamw, learning_rate: 0.01}\n"
                           "precision: fp16\ntraining: {loss_scale: {initial: 1099511627776}}"),
                 4);
  ASSERT_EQ(lines.size(), 4u);
  double scale = 1099511627776.0;
  for (const nlohmann::json& line : lines) {
    EXPECT_TRUE(line["skipped"].get<bool>());
    EXPECT_EQ(line["loss_scale"].get<double>(), scale);
    scale /= 2;
  }
}

}  // namespace
}  // namespace panpipe::exec
