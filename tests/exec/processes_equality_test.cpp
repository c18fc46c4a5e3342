// The same runs as processes that talk over Gloo, started as a user starts them.
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

std::string scenario(int pipeline, int tensor, const std::string& schedule, int data = 1, int zero = 0) {
  return "panpipe: 1\ncluster: {devices: " + std::to_string(pipeline * tensor * data) +
         ", memory: 4 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\n"
         "workload: {model: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 48}\n"
         "batch: {micro: 2, microbatches: " +
         std::to_string(6 / data) +
         "}\noptimizer: {name: sgd, learning_rate: 0.1}\n"
         "parallel: {pipeline: " +
         std::to_string(pipeline) + ", tensor: " + std::to_string(tensor) + ", data: " + std::to_string(data) +
         ", zero: " + std::to_string(zero) + "}\nschedule: " + schedule + "\n";
}

// Two steps of a scenario on one rank.
struct Alone {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> gradients;
};

Alone alone(const Folder& folder, const std::string& scenario_text) {
  const std::string file = folder.write("alone.yaml", scenario_text);
  RunRequest request = quiet(file, 2);
  request.dump_gradients = folder.file("alone.safetensors");
  const Outcome outcome = run_threads(file, request);
  EXPECT_EQ(outcome.error(), "");
  return {outcome.losses(), tensors_of(request.dump_gradients)};
}

// The same two steps by `panpipe run` over Gloo. `asked`: the scenario and its changes.
void expect_processes_equal(const Folder& folder, const std::string& asked, const Alone& one) {
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
  const Alone one = alone(folder, scenario(1, 1, "1f1b"));
  struct Case {
    int pipeline, tensor;
    const char* schedule;
    int data = 1, zero = 0;
  };
  for (const Case& c :
       {Case{2, 1, "1f1b", 2, 2}, Case{2, 1, "zb-h1", 2, 3}, Case{2, 2, "stp"}, Case{2, 1, "zb-v"}, Case{2, 1, "dualpipe"},
        Case{1, 2, "1f1b"}, Case{2, 1, "{name: seq-1f1b, sequence_splits: 4}"}, Case{4, 1, "seq-1f1b"},
        Case{2, 1, "{name: slimpipe, sequence_splits: 4}"}, Case{2, 1, "{name: 1f1b, vocabulary: stages}", 2},
        Case{4, 1, "{name: 1f1b, vocabulary: stages, vocabulary_barriers: 2}"}}) {
    SCOPED_TRACE(c.schedule);
    const std::string file = folder.write("s.yaml", scenario(c.pipeline, c.tensor, c.schedule, c.data, c.zero));
    expect_processes_equal(folder, file, one);
  }
}

// A mixture of experts, its experts shared out over two of two processes and over two of four; its rows travel over Gloo.
TEST(Processes, ExpertsOverRanksEqualOneProcess) {
  const Folder folder;
  const std::string config =
      folder.write("config.json",
                   "{\"model_type\": \"mixtral\", \"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
                   "\"intermediate_size\": 24, \"vocab_size\": 48, \"num_local_experts\": 4, \"num_experts_per_tok\": 2}");
  const auto scenario_on = [&](int pipeline, int data, int expert) {
    return "panpipe: 1\ncluster: {devices: " + std::to_string(pipeline * data) +
           ", memory: 4 GiB, link: {latency: 1 us, bandwidth: 10 GB/s}}\nworkload: {config: " + config +
           ", sequence: 8}\nbatch: {micro: 2, microbatches: " + std::to_string(8 / data) +
           "}\noptimizer: {name: sgd, learning_rate: 0.1}\nparallel: {pipeline: " + std::to_string(pipeline) +
           ", data: " + std::to_string(data) + ", expert: " + std::to_string(expert) + "}\nschedule: zb-h1\n";
  };
  const Alone one = alone(folder, scenario_on(1, 1, 1));
  for (const auto& [pipeline, data] : {std::pair{1, 2}, {2, 2}, {1, 4}}) {
    SCOPED_TRACE(data);
    const std::string file = folder.write("s.yaml", scenario_on(pipeline, data, 2));
    expect_processes_equal(folder, file, one);
  }
}

TEST(Processes, SharedSequencesEqualOneProcess) {
  const Folder folder;
  const Alone one = alone(folder, scenario(1, 1, "1f1b"));
  for (const std::string exchange : {"ring", "all-gather", "ulysses"}) {
    SCOPED_TRACE(exchange);
    const std::string file = folder.write("s.yaml", scenario(4, 1, "1f1b"));  // four devices
    expect_processes_equal(folder,
                           file + " --set parallel.pipeline=2 --set parallel.context=2 --set parallel.zero=1 " +
                               "--set parallel.context_exchange=" + exchange,
                           one);
  }
}

// Six layers with dropout: which blocks are made again, and that gradients stay what they are where nothing is.
TEST(Processes, BlocksThatAreMadeAgainEqualThoseThatAreKept) {
  const Folder folder;
  const auto six_layers = [](int pipeline, int tensor, const std::string& schedule) {
    std::string text = scenario(pipeline, tensor, schedule);
    return text.replace(text.find("layers: 2"), 9, "layers: 6, dropout: 0.1");
  };
  struct Case {
    int pipeline, tensor;
    const char *schedule, *recompute;
    std::vector<std::size_t> groups;  // made again, by stage
  };
  for (const Case& c :
       {Case{2, 1, "1f1b", "{first: 1}", {1, 1}}, Case{2, 1, "zb-h1", "{every: 2}", {1, 2}},
        Case{2, 1, "1f1b", "{chunk: 2}", {2, 2}}, Case{1, 2, "1f1b", "{first: 4}", {4}}, Case{1, 2, "1f1b", "{chunk: 3}", {2}}}) {
    SCOPED_TRACE(std::string(c.recompute) + " " + c.schedule);
    const std::string plain = six_layers(c.pipeline, c.tensor, c.schedule) + (c.pipeline == 2 ? "partition: [h.3]\n" : "");
    const std::string kept = folder.write("kept.yaml", plain);
    RunRequest request = quiet(kept, 2);
    request.dump_gradients = folder.file("kept.safetensors");
    const Outcome one = run_threads(kept, request);
    ASSERT_EQ(one.error(), "");
    const auto expected = tensors_of(request.dump_gradients);

    const std::string again = folder.write("again.yaml", plain + "recompute: " + c.recompute + "\n");
    const PreparedRun prepared(quiet(again, 1));
    ASSERT_EQ(prepared.layout.stages.size(), c.groups.size());
    for (std::size_t s = 0; s < c.groups.size(); ++s) EXPECT_EQ(prepared.layout.stages[s].again.size(), c.groups[s]) << s;
    RunRequest threads = quiet(again, 2);
    threads.dump_gradients = folder.file("threads.safetensors");
    const Outcome other = run_threads(again, threads);
    ASSERT_EQ(other.error(), "");
    EXPECT_EQ(other.losses().size(), 2u);
    expect_close(tensors_of(threads.dump_gradients), expected, 2e-5);

    const std::string gradients = folder.file("gloo.safetensors");
    const test::Ended run = test::start_panpipe("run " + again +
                                                " --steps 2 --transport gloo --device cpu --threads 1 --no-progress "
                                                "--deadline 60 --dump-gradients " +
                                                gradients)
                                .end();
    ASSERT_EQ(run.exit_code, 0) << run.err;
    expect_close(tensors_of(gradients), expected, 2e-5);
  }
}

TEST(Processes, ShuffleAndEvaluateAsThreadsDo) {
  const Folder folder;
  std::string tokens;
  for (int i = 0; i <= 8 * 60; ++i) tokens += static_cast<char>((i * i + 3 * i) % 48), tokens += '\0';
  folder.write("tokens", tokens);
  const std::string file = folder.write(
      "s.yaml", scenario(2, 2, "1f1b") +
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
  const std::string file = folder.write("s.yaml", scenario(2, 1, "1f1b"));
  for (const std::string transport : {"", " --transport local", " --transport gloo"}) {
    const test::Ended run = test::start_panpipe("profile " + file + " --device cuda" + transport).end();
    EXPECT_EQ(run.exit_code, 3) << transport;
    EXPECT_THAT(run.err, HasSubstr("--device cuda: "));
    EXPECT_EQ(run.out, "");
  }
}

}  // namespace
}  // namespace panpipe::exec
