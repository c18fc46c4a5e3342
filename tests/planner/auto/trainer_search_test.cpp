// Plans for a trainer: what it can run, at what it costs there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/scenario/trainer.hpp"
#include "planner/planner.hpp"
#include "tests/fault.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using test::fault_of;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Of every trainer, all that is found can run there, and steps cost as there.
TEST(TrainerSearch, FindsOnlyWhatCanRun) {
  for (const std::string& name : trainer_names()) {
    SCOPED_TRACE(name);
    const Experiment experiment(testing::four_cards("trainer: " + name + "\n"));
    EXPECT_EQ(experiment.scenario.framework.name, experiment.scenario.trainer->framework);
    SearchOptions options;
    options.candidates = 20;
    const Answer answer = search(experiment, options);
    ASSERT_FALSE(answer.candidates.empty());
    for (const Candidate& candidate : answer.candidates) {
      ASSERT_NE(candidate.plan, nullptr);
      const Plan& plan = *candidate.plan;
      Recompute most = Recompute::None;
      for (const StagePlan& stage : plan.stages) most = std::max(most, stage.recompute);
      const Precision precision = experiment.scenario.precision;
      for (const TrainerObstacle& obstacle : obstacles(*experiment.scenario.trainer, {plan, candidate.schedule, most, precision}))
        ADD_FAILURE() << candidate.summary << ": " << obstacle.what;
    }
    EXPECT_THAT(to_json(answer), HasSubstr("\"context\": {\"trainer\": \"" + name + "\"}"));
  }
}

// Costs of one framework under the name of another trainer are no prediction of that trainer.
TEST(TrainerSearch, SaysWhereStepsCostAsInAnotherFramework) {
  const auto cautions = [](const std::string& more) {
    return search(Experiment(testing::four_cards(more)), {}).candidates.front().cautions;
  };
  EXPECT_THAT(cautions("trainer: torchtitan\nframework: megatron-core\n"),
              Contains("steps cost as framework megatron-core, as the scenario states; those of torchtitan cost as torchtitan"));
  EXPECT_THAT(cautions("trainer: torchtitan\nframework: {attention: unfused}\n"), Not(Contains(HasSubstr("steps cost as"))));
  EXPECT_THAT(cautions("trainer: {name: torchtitan, release: 9.9}\n"), Contains(HasSubstr("release 9.9 of torchtitan")));
}

TEST(TrainerSearch, RefusesWhatIsStatedAndCannotRun) {
  const auto fault = [](const std::string& more) { return fault_of([&] { search(Experiment(testing::four_cards(more)), {}); }); };
  EXPECT_THAT(fault("trainer: megatron\nschedule: zb-h1\nparallel: {pipeline: 4}\n"),
              HasSubstr("Megatron-LM does not have the schedule zb-h1"));
  EXPECT_THAT(fault("trainer: accelerate\nparallel: {pipeline: 2}\n"), HasSubstr("Accelerate does not have pipelines"));
  EXPECT_THAT(fault("trainer: {name: megatron, release: 0.9}\nparallel: {zero: 2}\n"),
              HasSubstr("Megatron-LM 0.9 does not have ZeRO 2"));
  EXPECT_EQ(fault("trainer: deepspeed\nparallel: {zero: 3}\n"), "");  // without a pipeline
  EXPECT_THAT(fault("trainer: {name: torchtitan, release: 0.2}\nparallel: {pipeline: 4, data: 1}\n"),
              HasSubstr("torchtitan 0.2 does not have mixed precision where parameters are not divided over data ranks"));
}

}  // namespace
}  // namespace panpipe::planner
