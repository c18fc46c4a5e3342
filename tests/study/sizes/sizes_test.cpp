// Which sizes are tried, and which of them is the answer; without any planner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "study/sizes/sizes.hpp"
#include "tests/fault.hpp"

namespace panpipe::study {
namespace {

using ::testing::ElementsAre;
using testing::HasSubstr;

constexpr double kHour = 3600;

// 1000 h of one node of 8 GPUs, at 2 USD a GPU hour. Each doubling keeps 90 % of the speed, so 10/9 of the cost:
// 1: 1000 h, 16,000 USD; 2: 556 h, 17,778; 4: 309 h, 19,753; 8: 171 h, 21,948; 16: 95 h, 24,387; 32: 53 h, 27,096.
TriedSize of_nodes(int nodes) {
  TriedSize size;
  size.nodes = nodes;
  size.gpus = 8 * nodes;
  size.plan = "a plan";
  size.samples = 64;
  RunCost run;
  run.gpus = size.gpus;
  run.steps = 1000;
  run.time_s = 1000 * kHour / nodes * std::pow(1 / 0.9, std::log2(nodes));
  run.gpu_hours = run.time_s / kHour * size.gpus;
  run.cost = 2 * run.gpu_hours;
  run.currency = "USD";
  run.energy_kwh = 0.5 * run.gpu_hours;
  size.step_time_s = run.time_s / run.steps;
  size.run = run;
  return size;
}

TriedSize none(int nodes) {
  TriedSize size;
  size.nodes = nodes;
  size.gpus = 8 * nodes;
  size.reason = "memory is in the way";
  return size;
}

std::vector<int> nodes_of(const std::vector<TriedSize>& sizes) {
  std::vector<int> nodes;
  for (const TriedSize& size : sizes) nodes.push_back(size.nodes);
  return nodes;
}

TEST(Sizes, StatedOnesAreTriedInAscendingOrder) {
  SizeRequest request;
  request.sizes = {8, 2, 4, 2};
  request.objective = SizeObjective::Cost;
  const auto tried = try_sizes(request, of_nodes);
  EXPECT_THAT(nodes_of(tried), ElementsAre(2, 4, 8));
  EXPECT_EQ(tried[best_size(request, tried)].nodes, 2);  // the fewest cost least
  request.objective = SizeObjective::Step;
  EXPECT_EQ(tried[best_size(request, tried)].nodes, 8);
  request.objective = SizeObjective::Energy;
  EXPECT_EQ(tried[best_size(request, tried)].nodes, 2);
}

// 7 d are 168 h: 8 nodes take 171 h and 16 take 95 h, so 12, 10 and 9 are tried. 9: 1000 / 9 x (1 / 0.9)^3.170 = 155 h.
TEST(Sizes, ADeadlineIsDoubledToAndThenHalved) {
  SizeRequest request;
  request.most = 512;
  request.deadline = Duration(7 * 24 * kHour);
  const auto tried = try_sizes(request, of_nodes);
  EXPECT_THAT(nodes_of(tried), ElementsAre(1, 2, 4, 8, 9, 10, 12, 16));
  const TriedSize& best = tried[best_size(request, tried)];
  EXPECT_EQ(best.nodes, 9);
  EXPECT_EQ(verdict(request, tried[3]), "too late");
  EXPECT_EQ(verdict(request, best), "");
}

// 20,000 USD are enough for one node already; for 100 h they are not enough at any size: 16 nodes are over the budget.
// From 33 nodes on the run takes 10 h, and the plan uses 33 nodes up to 48. Halving between 32 and 64 ends at 34 nodes, one of
// them idle: 33 train as fast for less.
TEST(Sizes, NodesThatAPlanLeavesIdleAreNotOffered) {
  SizeRequest request;
  request.deadline = Duration(20 * kHour);
  request.most = 512;
  const auto plan_on = [](int nodes) {
    TriedSize size = of_nodes(nodes);
    size.idle = nodes >= 33 && nodes <= 48 ? 8 * (nodes - 33) : 0;
    size.run->time_s = (nodes >= 33 ? 10 : 1000.0 / nodes) * kHour;
    size.step_time_s = size.run->time_s / 1000;
    return size;
  };
  const auto tried = try_sizes(request, plan_on);
  const TriedSize& best = tried[best_size(request, tried)];
  EXPECT_EQ(best.nodes, 33);
  EXPECT_EQ(best.idle, 0);
  request.sizes = {35};  // what was asked for is answered, with a word on it
  const std::string text = to_table(request, try_sizes(request, plan_on), 0);
  EXPECT_THAT(text, HasSubstr("280 GPUs, 16 of them idle, are the fewest tried within 20 h: 10 h"));
  EXPECT_THAT(text, HasSubstr("16 GPUs idle; a plan"));
}

TEST(Sizes, ABudgetEndsTheDoubling) {
  SizeRequest request;
  request.most = 512;
  request.budget = Money{20000, "USD"};
  EXPECT_THAT(nodes_of(try_sizes(request, of_nodes)), ElementsAre(1));
  request.deadline = Duration(100 * kHour);
  const auto tried = try_sizes(request, of_nodes);
  EXPECT_THAT(nodes_of(tried), ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(best_size(request, tried), -1);
  EXPECT_EQ(verdict(request, tried.back()), "too late, over the budget");
  EXPECT_THAT(to_table(request, tried, 0), ::testing::StartsWith("no size tried makes it within 4.167 d and for 20,000 USD\n"));
}

TEST(Sizes, SmallOnesMayHaveNoPlan) {
  SizeRequest request;
  request.most = 512;
  request.deadline = Duration(700 * kHour);
  const auto tried = try_sizes(request, [](int nodes) { return nodes < 3 ? none(nodes) : of_nodes(nodes); });
  EXPECT_THAT(nodes_of(tried), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tried[best_size(request, tried)].nodes, 3);
  const auto nothing = try_sizes(request, none);
  EXPECT_EQ(nothing.back().nodes, 512);
  EXPECT_EQ(best_size(request, nothing), -1);
  EXPECT_THAT(to_table(request, nothing, 0), ::testing::StartsWith("no size tried has a plan that fits\n"));
}

TEST(Sizes, AnObjectiveAloneTriesWhatThereIs) {
  SizeRequest request;
  request.most = 6;
  request.objective = SizeObjective::Step;
  EXPECT_THAT(nodes_of(try_sizes(request, of_nodes)), ElementsAre(1, 2, 4, 6));
}

TEST(Sizes, WhatTheTableAndTheDocumentState) {
  SizeRequest request;
  request.sizes = {1, 2};
  request.objective = SizeObjective::Cost;
  auto tried = try_sizes(request, [](int nodes) { return nodes == 1 ? of_nodes(1) : none(2); });
  EXPECT_EQ(to_table(request, tried, 0),
            "8 GPUs are the cheapest tried: 41.7 d, 16,000 USD, 4 MWh\n"
            "  GPUs    step     run  GPU hours        cost  energy           plan\n"
            "     8  3600 s  41.7 d       8000  16,000 USD   4 MWh  best     a plan\n"
            "    16       -       -          -           -       -  no plan  memory is in the way\n");
  const auto document = nlohmann::json::parse(to_json(request, tried));
  EXPECT_EQ(document["schema"], "panpipe-sizes/1");
  EXPECT_EQ(document["best"], 8);
  EXPECT_EQ(document["sizes"][0]["cost"], 16000);
  EXPECT_EQ(document["sizes"][1]["reason"], "memory is in the way");
  tried[1] = of_nodes(2);
  tried[1].samples = 128;
  EXPECT_THAT(to_table(request, tried, 0), HasSubstr("differ in samples a step"));
}

using test::fault_of;

TEST(Sizes, WhatCannotBeAskedIsReported) {
  SizeRequest request;
  RunRequest run;
  request.budget = Money{100, "EUR"};
  EXPECT_EQ(fault_of([&] { check_request(request, run); }),
            "--budget: error: costs need a price\n  help: state run.price, as in '2.5 USD', or the name of a price list");
  run.prices = {2.5};
  run.currency = "USD";
  EXPECT_EQ(fault_of([&] { check_request(request, run); }),
            "--budget: error: it is in EUR, the price in USD: amounts of two currencies do not compare");
  request.budget.reset();
  request.objective = SizeObjective::Energy;
  EXPECT_EQ(fault_of([&] { check_request(request, run); }),
            "--objective: error: energy needs the power of the devices, which is not published for all of them\n"
            "  help: state run.power.gpu, as in '400 W'");
  request.objective.reset();
  request.deadline = Duration(1e-3);
  EXPECT_EQ(fault_of([&] {
              check_deadline(request, {of_nodes(1), none(2)});
            }),
            "--deadline: error: 1 ms is shorter than one step: the shortest takes 3600 s");
}

}  // namespace
}  // namespace panpipe::study
