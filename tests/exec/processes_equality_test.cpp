// The same runs as processes that talk over Gloo, started as a user starts them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exec/engine/device.hpp"
#include "exec/engine/run/run.hpp"
#include "tests/exec/processes.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

using testing::HasSubstr;

const std::string kSgd = "optimizer: {name: sgd, learning_rate: 0.1}\nschedule: ";

std::string scenario(const Mesh& mesh, const std::string& schedule, const std::string& model = "layers: 2") {
  return scenario_on(mesh, "model: gpt, hidden: 16, heads: 2, sequence: 8, vocabulary: 48, " + model,
                     fmt::format("{{micro: 2, microbatches: {}}}", 6 / mesh.data), kSgd + schedule);
}

// Two steps by `panpipe run` over Gloo, and on threads. `asked`: the scenario and its changes.
void expect_processes_equal(const Folder& folder, const std::string& asked, const Trained& one) {
  const std::string gradients = folder.file("gradients.safetensors");
  const test::Ended run = test::start_panpipe("run " + asked +
                                              " --steps 2 --transport gloo --device cpu --threads 1 --no-progress "
                                              "--deadline 60 --json --dump-gradients " +
                                              gradients)
                              .end();
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto losses = nlohmann::json::parse(run.out).at("losses").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 2u);
  for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(losses[s], one.losses.at(s), 1e-5 * one.losses.at(s));
  expect_close(tensors_of(gradients), one.gradients, 2e-5);
}

TEST(Processes, EverySortOfScheduleEqualsOneProcess) {
  const Folder folder;
  const Trained one = train(scenario({}, "1f1b"), 2);
  struct Case {
    Mesh mesh;
    const char* schedule;
  };
  for (const Case& c : {Case{{.pipeline = 2, .data = 2, .more = ", zero: 2"}, "1f1b"},
                        {{.pipeline = 2, .data = 2, .more = ", zero: 3"}, "zb-h1"},
                        {{.pipeline = 2, .tensor = 2}, "stp"},
                        {{.pipeline = 2}, "zb-v"},
                        {{.pipeline = 2}, "dualpipe"},
                        {{.tensor = 2}, "1f1b"},
                        {{.pipeline = 2}, "{name: seq-1f1b, sequence_splits: 4}"},
                        {{.pipeline = 4}, "seq-1f1b"},
                        {{.pipeline = 2}, "{name: slimpipe, sequence_splits: 4}"},
                        {{.pipeline = 2, .data = 2}, "{name: 1f1b, vocabulary: stages}"},
                        {{.pipeline = 4}, "{name: 1f1b, vocabulary: stages, vocabulary_barriers: 2}"}}) {
    SCOPED_TRACE(c.schedule);
    expect_processes_equal(folder, folder.write("s.yaml", scenario(c.mesh, c.schedule)), one);
  }
}

// A mixture of experts, its experts shared out over two of two processes and over two of four; its rows travel over Gloo.
TEST(Processes, ExpertsOverRanksEqualOneProcess) {
  const Folder folder;
  const std::string config =
      folder.write("config.json",
                   "{\"model_type\": \"mixtral\", \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
                   "\"intermediate_size\": 24, \"vocab_size\": 48, \"num_local_experts\": 4, \"num_experts_per_tok\": 2}");
  const auto experts_on = [&](const Mesh& mesh) {
    return scenario_on(mesh, "config: " + config + ", sequence: 8", fmt::format("{{micro: 2, microbatches: {}}}", 8 / mesh.data),
                       kSgd + "zb-h1");
  };
  const Trained one = train(experts_on({}), 2);
  for (const auto& [pipeline, data] : {std::pair{1, 2}, {2, 2}, {1, 4}}) {
    SCOPED_TRACE(data);
    expect_processes_equal(folder, folder.write("s.yaml", experts_on({.pipeline = pipeline, .data = data, .expert = 2})), one);
  }
}

TEST(Processes, SharedSequencesEqualOneProcess) {
  const Folder folder;
  const Trained one = train(scenario({}, "1f1b"), 2);
  for (const std::string exchange : {"ring", "all-gather", "ulysses"}) {
    SCOPED_TRACE(exchange);
    const std::string file = folder.write("s.yaml", scenario({.pipeline = 4}, "1f1b"));  // four devices
    expect_processes_equal(folder,
                           file + " --set parallel.pipeline=2 --set parallel.context=2 --set parallel.zero=1 " +
                               "--set parallel.context_exchange=" + exchange,
                           one);
  }
}

// Six layers with dropout: which blocks are made again, and that gradients stay what they are where nothing is.
TEST(Processes, BlocksThatAreMadeAgainEqualThoseThatAreKept) {
  const Folder folder;
  struct Case {
    Mesh mesh;
    const char *schedule, *recompute;
    std::vector<std::size_t> groups;  // made again, by stage
  };
  for (const Case& c : {Case{{.pipeline = 2}, "1f1b", "{first: 1}", {1, 1}},
                        {{.pipeline = 2}, "zb-h1", "{every: 2}", {1, 2}},
                        {{.pipeline = 2}, "1f1b", "{chunk: 2}", {2, 2}},
                        {{.tensor = 2}, "1f1b", "{first: 4}", {4}},
                        {{.tensor = 2}, "1f1b", "{chunk: 3}", {2}}}) {
    SCOPED_TRACE(std::string(c.recompute) + " " + c.schedule);
    const std::string plain = scenario(c.mesh, c.schedule, "layers: 6, dropout: 0.1") +
                              (c.mesh.pipeline == 2 ? "partition: [h.3]\n" : ""),
                      again = plain + "recompute: " + c.recompute + "\n", file = folder.write("again.yaml", again);
    const PreparedRun prepared(quiet(file, 1));
    ASSERT_EQ(prepared.layout.stages.size(), c.groups.size());
    for (std::size_t s = 0; s < c.groups.size(); ++s) EXPECT_EQ(prepared.layout.stages[s].again.size(), c.groups[s]) << s;
    const Trained one = train(plain, 2), other = train(again, 2);
    EXPECT_EQ(other.losses.size(), 2u);
    expect_close(other.gradients, one.gradients, 2e-5);
    expect_processes_equal(folder, file, one);
  }
}

TEST(Processes, ShuffleAndEvaluateAsThreadsDo) {
  const Folder folder;
  std::string tokens;
  for (int i = 0; i <= 8 * 60; ++i) tokens += static_cast<char>((i * i + 3 * i) % 48), tokens += '\0';
  folder.write("tokens", tokens);
  const std::string file = folder.write(
      "s.yaml", scenario({.pipeline = 2, .tensor = 2}, "1f1b") +
                    "data: {tokens: tokens, shuffle: true, held_out: 40 %}\ntraining: {evaluate: {every: 2, steps: 2}}\n");
  RunRequest request = quiet(file, 2);
  request.metrics = folder.file("threads.jsonl");
  ASSERT_EQ(run_threads(file, request).error(), "");
  const test::Ended run =
      test::start_panpipe("run " + file + " --steps 2 --transport gloo --device cpu --threads 1 --deadline 60 " + "--metrics " +
                          folder.file("gloo.jsonl"))
          .end();
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto threads = metrics_lines(folder.file("threads.jsonl")), gloo = metrics_lines(folder.file("gloo.jsonl"));
  ASSERT_EQ(threads.size(), 2u);
  ASSERT_EQ(gloo.size(), 2u);
  for (const char* key : {"loss", "validation_loss", "epoch"}) {
    const double expected = threads[1].at(key).get<double>();
    EXPECT_NEAR(gloo[1].at(key).get<double>(), expected, 1e-5 * expected) << key;
  }
  // 36 samples to train on, 12 a step.
  EXPECT_THAT(run.err, HasSubstr("step 1/2  epoch 0.33  loss "));
  EXPECT_THAT(run.err, HasSubstr("  validation loss "));
}

TEST(Processes, ProfileWithoutAGpuReportsIt) {
  if (gpu_count() > 0) GTEST_SKIP() << "this machine has one";
  const Folder folder;
  const std::string file = folder.write("s.yaml", scenario({.pipeline = 2}, "1f1b"));
  for (const std::string transport : {"", " --transport local", " --transport gloo"}) {
    const test::Ended run = test::start_panpipe("profile " + file + " --device cuda" + transport).end();
    EXPECT_EQ(run.exit_code, 3) << transport;
    EXPECT_THAT(run.err, HasSubstr("--device cuda: "));
    EXPECT_EQ(run.out, "");
  }
}

}  // namespace
}  // namespace panpipe::exec
