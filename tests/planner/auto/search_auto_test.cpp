// The search as a whole: nothing that it leaves out is better than its answer, its figures are those of the estimate, and what
// the scenario states stays.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/error.hpp"
#include "costmodel/estimate/estimate.hpp"
#include "costmodel/prediction/prediction.hpp"
#include "planner/answer_text.hpp"
#include "planner/auto/exact.hpp"
#include "planner/candidate.hpp"
#include "planner/methods.hpp"
#include "tests/fault.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using panpipe::testing::estimated;
using panpipe::testing::expect_again;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Answer answer_of(const Scenario& scenario, const SearchOptions& options = {}) {
  const Experiment experiment(scenario);
  return search_auto(experiment, options);
}

double step_of(const std::vector<std::pair<std::string, double>>& metrics) { return *figure_named(metrics, "step_time_s"); }

// Every configuration lowered and estimated.
double best_of_all(const Scenario& scenario) {
  const Experiment experiment(scenario);
  const Space space = space_of(experiment);
  Common common(experiment, space);
  Enumeration enumeration(common);
  for (const bool whole : {true, false})
    for (const int micro : space.micro) testing::enumerate_all(enumeration, space, micro, whole);
  Evaluator evaluator(common);
  double best = std::numeric_limits<double>::infinity();
  for (const Priced& one : enumeration.take()) {
    const Exact exact = evaluator.evaluate(one.configuration);
    if (exact.usable()) best = std::min(best, exact.step_time);
  }
  return best;
}

TEST(SearchAuto, NothingThatIsExcludedIsBetter) {
  for (const char* more : {"", "usable: 6 %\n", "framework: eager\nparallel: {pipeline: 4}\n",
                           "overlap_gradients: true\nusable: 5 %\n", "parallel: {context: 2}\n"}) {
    const Scenario scenario = testing::four_cards(more);
    const double best = best_of_all(scenario);
    const Answer answer = answer_of(scenario);
    ASSERT_FALSE(answer.candidates.empty()) << more;
    // Moved cuts may make it faster still.
    EXPECT_LE(answer.search.best, best * (1 + 1e-12)) << more;
    EXPECT_LE(answer.search.lower_bound, best * (1 + 1e-12)) << more;
    // Families whose orders are searched have no bound but the work; of the others the answer is proved.
    EXPECT_FALSE(answer.search.proved_optimal) << more;
    // A faster one that hardly fits stands behind: then nothing is proved of the first.
    const Candidate& first = answer.candidates.front();
    if (step_of(first.metrics) > answer.search.best) {
      EXPECT_EQ(room_of(first), Room::Enough) << more;
      EXPECT_THAT(answer.search.proved_but_for, IsEmpty()) << more;
      continue;
    }
    EXPECT_THAT(answer.search.proved_but_for, Contains("zb-auto")) << more;
  }
}

TEST(SearchAuto, OfStatedFamiliesTheAnswerIsProved) {
  for (const char* family : {"1f1b", "zb-h1"}) {
    const Scenario scenario = testing::four_cards(std::string("schedule: ") + family + "\n");
    const Answer answer = answer_of(scenario);
    EXPECT_TRUE(answer.search.proved_optimal) << family;
    EXPECT_THAT(answer.search.proved_but_for, IsEmpty());
    EXPECT_EQ(answer.search.lower_bound, answer.search.best);
    EXPECT_LE(answer.search.best, best_of_all(scenario) * (1 + 1e-12));
  }
}

// Stated experts over ranks stay, and no configuration that they allow is better.
TEST(SearchAuto, ExpertsStayOverTheirRanks) {
  const Scenario scenario = testing::experts_over_ranks("recompute: none\n", {"batch.micro=1"});
  const Answer answer = answer_of(scenario);
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_LE(answer.search.best, best_of_all(scenario) * (1 + 1e-12));
  for (const Candidate& candidate : answer.candidates) {
    const auto again = [](const std::vector<std::string>& overrides) {
      const Scenario chosen = testing::experts_over_ranks("recompute: none\n", overrides);
      EXPECT_EQ(chosen.degrees.expert, 4);
      return chosen;
    };
    expect_again(candidate, again, {"batch.micro=1"});
  }
}

// Context and experts searched with all else: nothing that is excluded is better, whole groups alone are looked at, and each
// candidate's settings give its figures again.
TEST(SearchAuto, ContextAndExpertsAreSearched) {
  for (const char* more :
       {"parallel: {context: auto, zero: 1}\nrecompute: none\n",
        "parallel: {context: auto, expert: auto, expert_tensor: auto}\nschedule: [1f1b, dualpipe-v]\nusable: 8 %\n"}) {
    const auto scenario = [&](std::vector<std::string> overrides) { return testing::four_experts(more, overrides); };
    const Answer answer = answer_of(scenario({}));
    ASSERT_FALSE(answer.candidates.empty()) << more;
    const double best = best_of_all(scenario({}));
    EXPECT_LE(answer.search.best, best * (1 + 1e-12)) << more;
    EXPECT_LE(answer.search.lower_bound, best * (1 + 1e-12)) << more;
    for (const Candidate& candidate : answer.candidates) expect_again(candidate, scenario);
  }
}

// Every configuration that is looked at has whole groups of experts, and a sequence that its context ranks share out.
TEST(SearchAuto, DegreesAreLegal) {
  const Experiment experiment(testing::four_experts("parallel: {context: auto}\n"));
  const Space space = space_of(experiment);
  EXPECT_EQ(space.expert, (std::vector<int>{1, 2, 4}));
  Common common(experiment, space);
  Enumeration enumeration(common);
  testing::enumerate_all(enumeration, space, 1, true);
  std::set<int> contexts, experts, widths;
  for (const Priced& one : enumeration.take()) {
    const Configuration& c = one.configuration;
    const Degrees degrees = c;
    EXPECT_EQ(degrees.devices_of_rank() % (c.expert * degrees.expert_tensor_group()), 0) << summary_of(c);
    EXPECT_TRUE(c.tensor == 1 || c.sequence_parallel || !degrees.experts_apart()) << summary_of(c);
    EXPECT_EQ(1024 % (2 * c.context), 0) << summary_of(c);
    contexts.insert(c.context), experts.insert(c.expert), widths.insert(c.expert_tensor);
  }
  EXPECT_EQ(contexts, (std::set<int>{1, 2, 4}));
  EXPECT_EQ(experts, (std::set<int>{1, 2, 4}));
  EXPECT_EQ(widths, (std::set<int>{0, 1}));
}

// Not stated, experts are searched where a model has some, and context where sequences are long.
TEST(SearchAuto, WhatIsSearchedUnstated) {
  const auto space = [](const Scenario& scenario) { return space_of(Experiment(scenario)); };
  EXPECT_EQ(space(testing::four_cards()).context, std::vector<int>{1});
  EXPECT_EQ(space(testing::four_cards()).expert, std::vector<int>{1});
  EXPECT_EQ(space(testing::four_cards("", {"workload.sequence=32768"})).context, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(space(testing::four_cards("parallel: {context: 2}\n", {"workload.sequence=32768"})).context, std::vector<int>{2});
  EXPECT_EQ(space(testing::four_experts()).expert, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(space(testing::four_experts("parallel: {expert: 2}\n")).expert, std::vector<int>{2});
  EXPECT_EQ(space(testing::four_experts("trainer: deepspeed\nparallel: {context: auto}\n")).expert, std::vector<int>{1});
}

// `expert` alone: data and tensor degrees follow from the plan.
TEST(SearchAuto, ExpertsAlonePlan) {
  const Answer answer = answer_of(testing::four_experts("parallel: {expert: 4}\nrecompute: none\n"));
  ASSERT_FALSE(answer.candidates.empty());
  for (const Candidate& candidate : answer.candidates) EXPECT_THAT(candidate.settings, Contains(Pair("parallel.expert", "4")));
}

// Megatron-LM combines experts and tensor parallelism with sequence parallelism only.
TEST(SearchAuto, ATrainerMayNeedSequenceParallelismForExperts) {
  const Experiment experiment(testing::four_experts("trainer: megatron-core\n"));
  for (const std::vector<Degrees>& round : rounds_of(space_of(experiment), 1))
    for (const Degrees& shape : round) EXPECT_TRUE(shape.tensor == 1 || shape.sequence_parallel);
}

TEST(SearchAuto, FiguresAreThoseOfTheEstimate) {
  for (auto* scenario : {testing::eight_cards, testing::two_nodes}) {
    SearchOptions options;
    options.candidates = 10;
    const Answer answer = answer_of(scenario("", {}), options);
    ASSERT_GE(answer.candidates.size(), 8U);
    for (const Candidate& candidate : answer.candidates)
      EXPECT_TRUE(expect_again(candidate, [&](const auto& set) { return scenario("", set); }).fits) << candidate.summary;
  }
}

// What the allocator adds differs from the factor that the search takes: whatever the limit, the best plan fits, and one that
// hardly does stands behind those with room.
TEST(SearchAuto, TheBestPlanHasRoomWhereAnyHas) {
  int hardly = 0, found = 0;
  for (int percent = 5; percent <= 25; percent += 2) {
    const Answer answer = answer_of(testing::eight_cards(fmt::format("usable: {} %\n", percent)));
    if (answer.candidates.empty()) {
      EXPECT_FALSE(answer.reason.empty());
      continue;
    }
    ++found;
    EXPECT_TRUE(fits_in_memory(answer.candidates.front())) << percent;
    for (std::size_t c = 1; c < answer.candidates.size(); ++c) {
      EXPECT_LE(room_of(answer.candidates[c - 1]), room_of(answer.candidates[c])) << percent;
      hardly += room_of(answer.candidates[c]) == Room::Hardly ? 1 : 0;
    }
    const auto again = [&](const auto& set) { return testing::eight_cards(fmt::format("usable: {} %\n", percent), set); };
    EXPECT_TRUE(expect_again(answer.candidates.front(), again).fits) << percent;
  }
  EXPECT_GT(found, 0);
  EXPECT_GT(hardly, 0);
}

// A stated context degree divides the devices with the others, and is in every candidate's figures.
TEST(SearchAuto, AContextDegreeStays) {
  const char* context = "parallel: {context: 2, context_exchange: all-gather}\n";
  SearchOptions options;
  options.candidates = 5;
  const Answer answer = answer_of(testing::two_nodes(context), options);
  ASSERT_EQ(answer.candidates.size(), 5U);
  for (const Candidate& candidate : answer.candidates) {
    EXPECT_THAT(candidate.summary, HasSubstr("x context 2"));
    expect_again(candidate, [&](const auto& set) { return testing::two_nodes(context, set); });
  }
}

TEST(SearchAuto, WhatIsStatedStays) {
  const Answer answer = answer_of(
      testing::two_nodes("parallel: {tensor: 2, zero: 1, sequence_parallel: false}\nschedule: 1f1b\nrecompute: full\n"));
  ASSERT_FALSE(answer.candidates.empty());
  for (const Candidate& candidate : answer.candidates) {
    EXPECT_THAT(candidate.settings, AllOf(Contains(Pair("parallel.tensor", "2")), Contains(Pair("parallel.zero", "1")),
                                          Contains(Pair("parallel.sequence_parallel", "false")),
                                          Contains(Pair("schedule", "1f1b")), Contains(Pair("recompute", "full"))));
    EXPECT_EQ(candidate.schedule, "1f1b");
  }
}

// 96 samples a step: 96 = micro x microbatches x data for every choice; a number stays, `auto` is searched.
TEST(SearchAuto, TheGlobalBatchStays) {
  for (const auto& [overrides, micro] :
       std::vector<std::pair<std::vector<std::string>, int>>{{{}, 0}, {{"batch={micro: 2, microbatches: 48}"}, 2}}) {
    for (const Candidate& candidate : answer_of(testing::two_nodes("", overrides)).candidates) {
      std::map<std::string, std::string> settings(candidate.settings.begin(), candidate.settings.end());
      EXPECT_EQ(
          std::stoi(settings["batch.micro"]) * std::stoi(settings["batch.microbatches"]) * std::stoi(settings["parallel.data"]),
          96);
      EXPECT_TRUE(micro == 0 || settings["batch.micro"] == std::to_string(micro));
    }
  }
}

TEST(SearchAuto, AScheduleWithOptionsIsTakenAsItIs) {
  const Answer answer = answer_of(testing::two_nodes("schedule: {name: kfkb, group: 3}\n"));
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_EQ(answer.candidates.front().schedule, "kfkb");
}

TEST(SearchAuto, ReportsWhichLimitIsInTheWay) {
  const Answer answer = answer_of(testing::four_cards("usable: 1 %\n"));
  EXPECT_TRUE(answer.candidates.empty());
  EXPECT_THAT(answer.reason,
              AllOf(HasSubstr("memory is in the way: of "), HasSubstr(" more than the limit of 0.8 GiB (pipeline ")));
}

// Odd microbatches only: dualpipe has no order, and the message is the schedule's own.
TEST(SearchAuto, ReportsWhyAStatedScheduleDoesNotExist) {
  const Answer answer = answer_of(testing::four_cards("parallel: {pipeline: 2, tensor: 2, data: 1}\nschedule: dualpipe\n",
                                                      {"batch={micro: 8, microbatches: 3}"}));
  EXPECT_TRUE(answer.candidates.empty());
  EXPECT_THAT(answer.reason,
              AllOf(HasSubstr("have no order of passes, the first because: dualpipe needs an even number of microbatches"),
                    HasSubstr("none of the ")));
}

// Slices of a causal sequence leave out what the mask hides, actions of their own recompute: bounds must not count either.
TEST(SearchAuto, StatedSchedulesAreNotExcludedByWhatTheyLeaveOut) {
  for (const char* schedule : {"schedule: {name: seq-1f1b, sequence_splits: 4}\n", "schedule: {name: 1f1b, recompute: full}\n"}) {
    const std::string more = std::string(schedule) + "usable: 7 %\nframework: megatron\n";
    const double best = best_of_all(testing::four_cards(more));
    const Answer answer = answer_of(testing::four_cards(more));
    ASSERT_FALSE(answer.candidates.empty()) << schedule;
    EXPECT_LE(answer.search.lower_bound, best * (1 + 1e-12)) << schedule;
    EXPECT_TRUE(!answer.search.proved_optimal || answer.search.best <= best * (1 + 1e-12)) << schedule;
  }
}

// The memory of another planner's model is not known in closed form: what fits is found all the same.
TEST(SearchAuto, FindsWhatFitsWithoutAClosedFormOfMemory) {
  const Answer answer = answer_of(testing::four_cards("schedule: {name: kfkb, group: 2}\nusable: 6 %\n"));
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_LE(*figure_named(answer.candidates.front().metrics, "peak_memory_bytes"), 0.06 * 80 * 1024.0 * 1024 * 1024);
}

TEST(SearchAuto, NeedsTimes) {
  const Scenario scenario = parse_scenario(
      "panpipe: 1\ncluster: {devices: 2, memory: 4 GiB, link: {latency: 60 us, bandwidth: 2 GB/s}}\n"
      "workload: {model: gpt, layers: 4, hidden: 256, heads: 4, vocabulary: 2048, sequence: 128}\n"
      "batch: {micro: 2, microbatches: 8}\n",
      "no-rates.yaml", ".");
  EXPECT_THAT(test::fault_of([&] { answer_of(scenario); }),
              HasSubstr("the cluster's devices have no compute rates (given in place), so times are unknown"));
}

// Every family of the table that planners try, from the day it stands there: in the search, or among those that are tried last.
TEST(SearchAuto, TriesEveryPlannedFamily) {
  const Experiment experiment(testing::four_cards());
  const Space space = space_of(experiment);
  std::string note = "schedules: ";
  for (const FamilyForm& form : forms())
    if (form.placement != StagePlacement::Opaque) note += (note.back() == ' ' ? "" : ", ") + std::string(form.name);
  EXPECT_THAT(space.notes, Contains(note));
  for (const char* name : {"gpipe", "1f1b", "zb-v", "stp", "hanayo"}) EXPECT_THAT(note, HasSubstr(name));
  Common common(experiment, space);
  Enumeration enumeration(common);
  for (const int micro : space.micro) testing::enumerate_all(enumeration, space, micro, true);
  std::set<int> found;
  for (const Priced& one : enumeration.take()) found.insert(one.configuration.family);
  // stp asks for 3P-1 microbatches, of which two ranks on these four cards have enough.
  EXPECT_EQ(found, std::set<int>(space.families.begin(), space.families.end()));
}

TEST(SearchAuto, MeasuredLayers) {
  const Answer answer =
      answer_of(parse_scenario("panpipe: 1\ncluster: {devices: 3, memory: 24 GiB, link: {latency: 0.26 ms, bandwidth: 8 GB/s}}\n"
                               "workload: {layers: workloads/six-layers-with-skip.yaml}\nbatch: {micro: 1, microbatches: 12}\n",
                               "layers.yaml", "."));
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_THAT(answer.candidates.front().settings, Contains(Pair("parallel.tensor", "1")));
}

TEST(SearchAuto, TwoSocketsAsTwoRanks) {
  const Answer answer =
      answer_of(parse_scenario("panpipe: 1\ncluster: clusters/epyc-7742-x2.yaml\n"
                               "workload: {model: gpt2, sequence: 512}\nbatch: {micro: auto, microbatches: 16}\n"
                               "parallel: {pipeline: 2}\n",
                               "sockets.yaml", "."));
  ASSERT_FALSE(answer.candidates.empty());
  EXPECT_EQ(answer.candidates.front().plan->pipeline, 2);
}

// Two ranks and four copies of RTX 3090 in bridged pairs. Where hand-overs weigh more than gradients, a rank and the next one
// belong on a bridge, which the usual numbering (copies of a rank side by side) does not give.
TEST(SearchAuto, RanksOfACopyLieOnABridge) {
  const std::string stated =
      "parallel: {pipeline: 2, data: 4, tensor: 1, zero: 0}\nschedule: 1f1b\nrecompute: none\ntransfers: {semantics: blocking}\n";
  const std::vector<std::string> sizes = {"batch={micro: 1, microbatches: 96}", "workload.hidden=512", "workload.heads=8",
                                          "workload.vocabulary=512", "workload.sequence=4096"};
  const Answer answer = answer_of(testing::eight_cards(stated, sizes));
  ASSERT_FALSE(answer.candidates.empty());
  const Candidate& best = answer.candidates.front();
  EXPECT_THAT(best.settings, Contains(Pair("placement", "[0, 2, 4, 6, 1, 3, 5, 7]")));
  EXPECT_LT(step_of(best.metrics), estimated(testing::eight_cards(stated, sizes)).step_time_s);
}

}  // namespace
}  // namespace panpipe::planner
