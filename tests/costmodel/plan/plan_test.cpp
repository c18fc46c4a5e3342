#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/cost/cost_model.hpp"
#include "costmodel/plan/plan.hpp"
#include "costmodel/workload/workload.hpp"
#include "tests/costmodel/lowering/tables.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using test::chain_of;
using test::scenario_of;

template <class Error>
std::string message_of(const Scenario& scenario, const test::TableCosts& costs) {
  const std::string text = test::fault_of<Error>([&] { make_plan(scenario, costs); });
  return text.starts_with("error: ") ? text.substr(7) : text;  // an input error without a place reads "error: message"
}

TEST(MakePlan, BalancesAndNumbersDevices) {
  const Scenario scenario = scenario_of(2, 4, "1f1b", 1, 2);
  const Plan plan = make_plan(scenario, chain_of(4, 1, 1, 1));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].end_unit, 2);
  EXPECT_EQ(plan.stages[1].first_unit, 2);
  EXPECT_EQ(plan.stages[1].end_unit, 4);
  EXPECT_EQ(plan.device(1, 0, 0), 2);  // tensor fastest, then data, then pipeline
  EXPECT_EQ(plan.device(1, 1, 0), 3);
}

TEST(MakePlan, StagesPerRankComeFromVirtualStages) {
  const Plan plan = make_plan(scenario_of(2, 4, "interleaved-1f1b", 3), chain_of(6, 1, 1, 1));
  EXPECT_EQ(plan.schedule.stages, 6);
  EXPECT_EQ(plan.stages[5].first_unit, 5);
}

// Without times floating-point operations are balanced: here 3 + 1 + 1 + 1 units of work.
TEST(MakePlan, WithoutTimesWorkIsBalanced) {
  test::TableCosts costs = chain_of(4, 0, 0, 0);
  for (auto& unit : costs.table.units) unit.forward.breakdown.work = Flops(1e12);
  costs.table.units[0].forward.breakdown.work = Flops(3e12);
  const Plan plan = make_plan(scenario_of(2, 2, "gpipe"), costs);
  EXPECT_EQ(plan.stages[0].end_unit, 1);
}

TEST(MakePlan, PartsThatDoNotFitAreExplained) {
  const test::TableCosts costs = chain_of(2, 1, 1, 1);
  EXPECT_EQ(
      message_of<InputError>(scenario_of(4, 4, "1f1b"), costs),
      "4 stages cannot share 2 units: the workload can be cut into 2 stages at most\n  help: parallel.pipeline is 4 (default)");
  EXPECT_EQ(message_of<InputError>(scenario_of(2, 4, "1f1b", 2), costs),
            "parallel.virtual_stages is 2, but schedule 1f1b has 1 stage per rank");
  Scenario scenario = scenario_of(2, 4, "1f1b");
  scenario.degrees.data = 2;
  EXPECT_EQ(message_of<InputError>(scenario, costs),
            "parallel asks for 4 devices (pipeline 2 x tensor 1 x data 2) but the cluster has 2 devices");
  scenario = scenario_of(2, 4, "1f1b");
  scenario.placement = std::vector<int>{0, 0};
  EXPECT_EQ(message_of<InputError>(scenario, costs), "placement: device 0 is named twice");
  scenario.placement = std::vector<int>{0, 2};
  EXPECT_EQ(message_of<InputError>(scenario, costs), "placement: there is no device 2; cluster 'row' has devices 0 to 1");
  scenario.placement = std::vector<int>{0};
  EXPECT_EQ(message_of<InputError>(scenario, costs),
            "placement: 1 devices are named, but pipeline 2 x tensor 1 x data 1 needs 2");
}

TEST(MakePlan, AnIllegalScheduleIsAnAnswer) {
  Scenario scenario = scenario_of(2, 1, "");
  scenario.schedule.csv = test::scratch().write("illegal.csv", "0F0,0B0\n1B0,1F0\n");
  const std::string message = message_of<NoAnswer>(scenario, chain_of(2, 1, 1, 1));
  EXPECT_THAT(message, testing::HasSubstr("is illegal: rank 1"));
}

TEST(MakePlan, AFileForOtherSizesIsRefused) {
  Scenario scenario = scenario_of(2, 3, "");
  scenario.schedule.csv = test::scratch().write("sizes.csv", "0F0,0B0\n1F0,1B0\n");
  const std::string message = message_of<InputError>(scenario, chain_of(2, 1, 1, 1));
  EXPECT_THAT(message, testing::HasSubstr("is for 1 microbatches, but batch.microbatches is 3"));
}

struct Loaded {
  Scenario scenario;
  Workload workload;
};

Loaded measured_layers(int layers) {
  std::string text = "panpipe: 1\nkind: layers\nsource: test\nlayers:\n";
  for (int l = 0; l < layers; ++l)
    text += fmt::format("- {{name: op{}, forward: 1 ms, input_gradient: 1 ms, weight_gradient: 1 ms, output: 8 B}}\n", l);
  const std::string path = test::scratch().write("layers.yaml", text);
  Loaded loaded;
  loaded.scenario = parse_scenario(
      "panpipe: 1\ncluster: {devices: 4, memory: 1 GiB, link: {latency: 1 us, bandwidth: unlimited}}\nworkload: {layers: " +
          path + "}\nbatch: {micro: 1, microbatches: 8}\nschedule: zb-h1\n",
      "plan.yaml", ".");
  loaded.workload = make_workload(loaded.scenario.workload, {});
  return loaded;
}

// The numbers of a search mean the same as the scenario's names.
TEST(Plan, CutsByNumberAreThoseByName) {
  const Loaded loaded = measured_layers(6);
  const CostModel model(loaded.scenario, loaded.workload);
  PlanRequest request = request_of(loaded.scenario);
  request.partition = {"op1", "op3", "op4"};
  const std::string named = to_yaml(make_plan(loaded.scenario, request, model), model.units(0));
  request.partition = {"op1"};  // numbers go before names
  request.cuts = {1, 3, 4};
  EXPECT_EQ(to_yaml(make_plan(loaded.scenario, request, model), model.units(0)), named);
  request.cuts = {1, 3};
  EXPECT_EQ(test::diagnostic_of([&] { make_plan(loaded.scenario, request, model); }).message,
            "partition: 4 stages need 3 cuts (units that start a stage after the first), not 2");
}

TEST(PlanFile, StatesBatchAndDegreesOfThePlan) {
  const Loaded loaded = measured_layers(6);
  const CostModel model(loaded.scenario, loaded.workload);
  Plan plan = make_plan(loaded.scenario, model);
  plan.micro = 3;
  plan.sequence_parallel = true;
  EXPECT_EQ(to_yaml(plan, model.units(0))
                .rfind("panpipe: 1\nkind: plan\nbatch: {microbatches: 8, micro: 3}\n"
                       "parallel: {pipeline: 4, tensor: 1, data: 1, zero: 0, sequence_parallel: true}\n",
                       0),
            0U);
}

TEST(PlanFile, ComesBackAsItWas) {
  const Loaded loaded = measured_layers(6);
  const CostModel model(loaded.scenario, loaded.workload);
  Plan plan = make_plan(loaded.scenario, model);
  plan.stages[1].recompute = Recompute::Full;
  std::swap(plan.devices[0], plan.devices[3]);
  const std::string path = test::scratch().write("plan.yaml", to_yaml(plan, model.units(0)));
  const Plan back = load_plan(path, loaded.scenario, model);
  EXPECT_EQ(to_yaml(back, model.units(0)), to_yaml(plan, model.units(0)));
  EXPECT_EQ(back.devices, plan.devices);
  EXPECT_EQ(back.schedule.name, plan.schedule.name);
  EXPECT_EQ(back.schedule.order, plan.schedule.order);
  EXPECT_EQ(back.schedule.stage_to_rank, plan.schedule.stage_to_rank);
  EXPECT_EQ(back.schedule.chains, plan.schedule.chains);
  EXPECT_EQ(back.stages[1].recompute, Recompute::Full);
}

TEST(PlanFile, APlanForAnotherWorkloadIsRefused) {
  const Loaded six = measured_layers(6);
  const CostModel model(six.scenario, six.workload);
  const std::string path = test::scratch().write("plan.yaml", to_yaml(make_plan(six.scenario, model), model.units(0)));
  const Loaded five = measured_layers(5);
  const CostModel other(five.scenario, five.workload);
  const Diagnostic fault = test::diagnostic_of([&] { load_plan(path, five.scenario, other); });
  EXPECT_EQ(fault.message, "must be [first, end) with first < end, at most the workload's 5 units");
  EXPECT_GT(fault.line, 0);
}

// An optimizer that the host updates is another plan than one whose states stream through the devices.
TEST(PlanFile, WhereTheOptimizerIsUpdatedIsPartOfThePlan) {
  Loaded loaded = measured_layers(6);
  const CostModel model(loaded.scenario, loaded.workload);
  const std::string plan = to_yaml(make_plan(loaded.scenario, model), model.units(0));
  loaded.scenario.offload.optimizer = loaded.scenario.offload.streams = true;
  const auto load = [&](const char* place) {
    load_plan(test::scratch().write("plan.yaml", plan + "offload: {optimizer: " + place + "}\n"), loaded.scenario, model);
  };
  EXPECT_NO_THROW(load("stream"));
  EXPECT_THAT(test::diagnostic_of([&] { load("cpu"); }).message,
              testing::StartsWith("the plan has optimizer cpu, but the scenario has stream"));
}

}  // namespace
}  // namespace panpipe
