// The costs of a whole run, as a user asks for it (docs/run-costs.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// GPT-2 large, whose samples have 1024 tokens, on 16 RTX 3090.
const std::string kScenario =
    "panpipe: 1\n"
    "cluster: {file: clusters/rtx3090x8.yaml, nodes: 2}\n"
    "workload: {model: gpt2-large}\n"
    "batch: {micro: 1, global: 64}\n"
    "precision: fp16\n"
    "parallel: {pipeline: 4, data: 4}\n";

std::string scenario(const std::string& run, const std::string& text = kScenario) {
  const std::string file = temporary_folder() + "/scenario.yaml";
  write_file(file, text + (run.empty() ? "" : "run: " + run + "\n"));
  return file;
}

json metrics_of(const std::string& command) {
  const Outcome run = panpipe(command + " --json");
  EXPECT_EQ(run.exit_code, 0) << command << run.err;
  return run.exit_code == 0 ? json::parse(run.out)["metrics"] : json();
}

constexpr const char* kRun =
    "{tokens: 10B, price: 0.25 EUR, carbon: 400 g/kWh, power: {pue: 1.2}, checkpoint: {time: 20 s}, "
    "failures: {mtbf: 1000 h, restart: 5 min}}";

TEST(RunCosts, FiguresFollowFromTheStep) {
  const json with = metrics_of("estimate " + scenario(kRun)), without = metrics_of("estimate " + scenario(""));
  for (const char* name : {"run_steps", "run_time_s", "gpu_hours", "goodput", "cost", "currency", "energy_kwh", "carbon_kg"}) {
    EXPECT_TRUE(with.contains(name)) << name;
    EXPECT_FALSE(without.contains(name)) << name;
  }
  for (const auto& [name, value] : without.items()) EXPECT_EQ(with[name], value) << name;
  // 1e10 tokens in steps of 64 x 1024 tokens: 152,587.9 steps.
  const double steps = 152588, hours = with["gpu_hours"];
  EXPECT_EQ(with["run_steps"], steps);
  EXPECT_NEAR(with["run_time_s"].get<double>() * with["goodput"].get<double>(), steps * with["step_time_s"].get<double>(), 1e-3);
  EXPECT_NEAR(hours, with["run_time_s"].get<double>() * 16 / 3600, 1e-6);
  EXPECT_NEAR(with["mtbf_s"].get<double>(), 1000 * 3600 / 16.0, 1e-6);
  EXPECT_NEAR(with["cost"].get<double>(), 0.25 * hours, 1e-6);
  EXPECT_EQ(with["currency"], "EUR");
  EXPECT_NEAR(with["energy_kwh"].get<double>(), hours * 0.350 * 1.2, 1e-6);  // 350 W a card
  EXPECT_NEAR(with["carbon_kg"].get<double>(), with["energy_kwh"].get<double>() * 0.4, 1e-6);
}

TEST(RunCosts, TheCheckpointIsTheWeightsAndTheOptimizersState) {
  const std::string run = "{steps: 1M, checkpoint: {bandwidth: 1 GB/s, interval: 1 h}}";
  const json adam = metrics_of("estimate " + scenario(run)),
             sgd = metrics_of("estimate " + scenario(run) + " --set optimizer=sgd");
  // fp16 training: an fp32 master and two moments, 12 bytes; sgd without momentum: 4.
  EXPECT_NEAR(adam["checkpoint_s"].get<double>(), 12 * adam["parameters"].get<double>() / 1e9, 1e-9);
  EXPECT_NEAR(sgd["checkpoint_s"].get<double>(), 4 * sgd["parameters"].get<double>() / 1e9, 1e-9);
  EXPECT_NEAR(adam["goodput"].get<double>(), 1 / (1 + adam["checkpoint_s"].get<double>() / 3600), 1e-12);
}

TEST(RunCosts, BothEnginesAndTheCheckedScenarioAgree) {
  const std::string file = scenario(kRun);
  const json simulated = metrics_of("simulate --backend flow " + file);
  EXPECT_NEAR(simulated["run_time_s"].get<double>() * simulated["goodput"].get<double>(),
              152588 * simulated["step_time_s"].get<double>(), 1e-3);
  const std::string checked = answer_of("check " + file);
  const std::string again = temporary_folder() + "/again.yaml";
  write_file(again, checked);
  EXPECT_EQ(metrics_of("estimate " + again), metrics_of("estimate " + file));
}

TEST(RunCosts, APriceListHoldsFromAnotherFolderToo) {
  const std::string folder = temporary_folder(), list = folder + "/mine.yaml";
  write_file(list,
             "panpipe: 1\nkind: prices\nprices:\n- {device: RTX3090, price: 0.5 USD, date: 2026-01-31, source: my contract}\n");
  const std::string file = scenario("{steps: 1000, price: " + list + "}");
  const Outcome table = panpipe("estimate " + file);
  EXPECT_THAT(table.out, HasSubstr("run  1000 steps: "));
  EXPECT_THAT(table.out, HasSubstr(" USD at 0.50 USD ("));
  EXPECT_THAT(table.out, HasSubstr("mine.yaml, 2026-01-31) a GPU hour\n"));
  const json metrics = metrics_of("estimate " + file);
  EXPECT_NEAR(metrics["cost"].get<double>(), 0.5 * metrics["gpu_hours"].get<double>(), 1e-9);
}

TEST(RunCosts, ImagesHaveNoTokens) {
  const std::string vit =
      "panpipe: 1\ncluster: clusters/rtx3090x8.yaml\n"
      "workload: {model: vit, layers: 4, hidden: 512, heads: 8, image: 224, patch: 16, classes: 1000}\n"
      "batch: {micro: 1, microbatches: 8}\nparallel: {pipeline: 2, data: 4}\n";
  const std::string file = scenario("{tokens: 1B}", vit);
  const Outcome run = panpipe("estimate " + file);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr(":6:15: error: this model reads no tokens\n"));
  EXPECT_THAT(run.err, HasSubstr("at run.tokens\n"));
  EXPECT_THAT(run.err, HasSubstr("help: count samples or steps\n"));
  // 1e9 samples in steps of 8 x 4.
  EXPECT_EQ(metrics_of("estimate " + scenario("{samples: 1B}", vit))["run_steps"], 31250000);
}

TEST(RunCosts, ASweepShowsThemForEachCell) {
  const std::string file = scenario("{steps: 1000, price: 2 USD}");
  const std::string run = answer_of("sweep " + file + " --over batch.micro=1,2");
  EXPECT_THAT(run, HasSubstr("costs in USD, at 2.00 USD a GPU hour\n"));
  for (const char* head : {" run ", " GPU hours ", " cost ", " energy\n"}) EXPECT_THAT(run, HasSubstr(head));
  EXPECT_THAT(panpipe("sweep " + scenario("") + " --over batch.micro=1,2").out, ::testing::Not(HasSubstr("GPU hours")));
}

TEST(RunCosts, AComparisonOfTwoCurrenciesHasNoDifference) {
  const std::string folder = temporary_folder();
  for (const char* currency : {"USD", "EUR"})
    ASSERT_EQ(panpipe("estimate " + scenario(std::string("{steps: 1000, price: 2 ") + currency + "}") + " -o " + folder + "/" +
                      currency)
                  .exit_code,
              0);
  const Outcome run = panpipe("compare " + folder + "/USD " + folder + "/EUR");
  EXPECT_THAT(run.out, ::testing::ContainsRegex("cost +[0-9.,]+ USD +[0-9.,]+ EUR +two currencies"));
  EXPECT_EQ(panpipe("compare " + folder + "/USD " + folder + "/EUR --tolerance cost=50%").exit_code, 1);
}

const std::string kOpen = kScenario.substr(0, kScenario.find("parallel")) + "schedule: 1f1b\n";

TEST(RunCosts, SizesAreComparedByWhatARunTakes) {
  const std::string file = scenario("{tokens: 1B, price: 0.2 USD}", kOpen);
  const std::string run = answer_of("plan " + file + " --gpus 8,16,32 --objective cost --json");
  const json sizes = json::parse(run)["sizes"];
  ASSERT_EQ(sizes.size(), 3u);
  double least = INFINITY;
  int cheapest = 0;
  for (const json& size : sizes) {
    EXPECT_EQ(size["gpus"].get<int>(), 8 * size["nodes"].get<int>());
    EXPECT_NEAR(size["cost"].get<double>(), 0.2 * size["gpu_hours"].get<double>(), 1e-9);
    if (size["cost"] < least) {
      least = size["cost"];
      cheapest = size["gpus"];
    }
  }
  EXPECT_EQ(json::parse(run)["best"], cheapest);
}

TEST(RunCosts, ADeadlineIsMetByTheSizeThatIsWritten) {
  const std::string file = scenario("{tokens: 1B}", kOpen), plan = temporary_folder() + "/plan.yaml";
  // One node keeps a deadline of a day more than it takes; half of that time needs more.
  const double alone = json::parse(answer_of("plan " + file + " --nodes 1 --json"))["sizes"][0]["run_time_s"];
  const Outcome half = panpipe("plan " + file + " --deadline " + std::to_string(alone * 0.6) + "s --json -o " + plan);
  ASSERT_EQ(half.exit_code, 0) << half.err;
  const json answer = json::parse(half.out);
  EXPECT_GT(answer["best"].get<int>(), 8);
  const int nodes = answer["best"].get<int>() / 8;
  EXPECT_THAT(half.err, HasSubstr("give the other verbs --set cluster.nodes=" + std::to_string(nodes) + " too"));
  const json again = metrics_of("estimate " + file + " --plan " + plan + " --set cluster.nodes=" + std::to_string(nodes));
  EXPECT_LE(again["run_time_s"].get<double>(), alone * 0.6);
  // Nothing makes it in a hundredth of the time on at most two nodes.
  const Outcome never = panpipe("plan " + file + " --nodes 1,2 --deadline " + std::to_string(alone / 100) + "s");
  EXPECT_EQ(never.exit_code, 1);
  EXPECT_THAT(never.out, HasSubstr("no size tried makes it within "));
}

TEST(RunCosts, WhatSizesCannotBeAskedForIsReported) {
  const std::string priced = scenario("{tokens: 1B, price: 0.2 USD}", kOpen);
  const auto error = [](const std::string& arguments) { return refusal_of("plan " + arguments); };
  EXPECT_EQ(error(priced + " --deadline 7"), "--deadline: error: '7' has no unit; write '7 h' or '7 d'\n");
  EXPECT_EQ(error(priced + " --deadline=-7d"), "--deadline: error: '-7d' must be positive\n");
  EXPECT_EQ(error(priced + " --budget 50"), "--budget: error: '50' has no currency; write '50 USD' or '50 EUR'\n");
  EXPECT_EQ(error(priced + " --budget 50EUR"),
            "--budget: error: it is in EUR, the price in USD: amounts of two currencies do not compare\n");
  EXPECT_EQ(error(priced + " --gpus 12"),
            "--gpus: error: this cluster's nodes have 8 devices each, and 12 is no multiple of it\n");
  EXPECT_EQ(error(priced + " --gpus 8 --nodes 1"), "--nodes: error: GPUs and nodes say the same: give one of the two\n");
  EXPECT_EQ(error(priced + " --objective costs"), "--objective: error: there is no 'costs', did you mean 'cost'?\n");
  const std::string silent = scenario("", kOpen);
  EXPECT_EQ(error(silent + " --deadline 7d"), "--tokens: error: the scenario " + silent +
                                                  " does not say how much is trained\n"
                                                  "  help: 300B, or state it in the scenario, as in 'run: {tokens: 300B}'\n");
  EXPECT_EQ(error(silent + " --tokens 1B --objective cost"),
            "--objective: error: costs need a price\n"
            "  help: state run.price, as in '2.5 USD', or the name of a price list\n");
  EXPECT_THAT(error(priced + " --deadline 1us --nodes 1"), HasSubstr("--deadline: error: 1 us is shorter than one step: "));
}

}  // namespace
}  // namespace panpipe::test
