// The answer of a search: who stops it, what contention decides, which plans are tried last, and how many are shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

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
using ::testing::Contains;
using ::testing::HasSubstr;

Answer answer_of(const Scenario& scenario, const SearchOptions& options = {}) {
  const Experiment experiment(scenario);
  return search_auto(experiment, options);
}

double step_of(const std::vector<std::pair<std::string, double>>& metrics) { return *figure_named(metrics, "step_time_s"); }

TEST(SearchAuto, ThreadsDoNotChangeTheAnswer) {
  const Experiment experiment(testing::two_nodes());
  SearchOptions one, two;
  two.threads = 2;
  EXPECT_EQ(to_json(search_auto(experiment, one)), to_json(search_auto(experiment, two)));
}

TEST(SearchAuto, StopsWithTheBestSoFar) {
  const Experiment experiment(testing::two_nodes());
  std::atomic<bool> stop{false};
  SearchOptions options;
  options.stop = &stop;
  options.progress = [&](const SearchState& state) { stop = state.best > 0; };
  const Answer answer = search_auto(experiment, options);
  EXPECT_TRUE(answer.interrupted);
  EXPECT_FALSE(answer.search.proved_optimal);
  EXPECT_EQ(answer.search.lower_bound, 0);
  EXPECT_FALSE(answer.candidates.empty());
  const Answer nothing = search_auto(experiment, options);
  EXPECT_EQ(nothing.reason, "stopped before a plan was found");
}

// A round is ended where the time is up: no further graph is priced, which takes seconds on thousands of devices.
TEST(SearchAuto, AStoppedRoundPricesNoFurtherGraph) {
  const Experiment experiment(testing::four_experts("parallel: {context: auto}\n"));
  const Space space = space_of(experiment);
  const std::atomic<bool> stop{true};
  SearchOptions options;
  options.stop = &stop;
  Common common(experiment, space, options);
  Enumeration enumeration(common);
  Enumeration::Round round(rounds_of(space, 1).front());
  enumeration.run_round(round, true, true, kInfinite);
  EXPECT_EQ(enumeration.tally().evaluated, 0);
  for (const auto& pricer : round.pricers) EXPECT_EQ(pricer, nullptr);
}

// Contention that slows all plans down but the one with the fourth least estimate (the first three are equal).
SearchOptions fourth_is_best(int& calls, std::size_t shown) {
  SearchOptions options;
  options.candidates = shown;
  options.simulate = [&calls](const TaskGraph& graph, const Cluster&) {
    Timeline timeline = estimate(graph);
    timeline.step_time = timeline.step_time * (++calls == 4 ? 1.0 : 2.0);
    return timeline;
  };
  return options;
}

// The finalist that contention slows down least is chosen, and nothing is called proved of it that holds for another plan.
TEST(SearchAuto, ContentionDecides) {
  int calls = 0;
  const Answer answer = answer_of(testing::four_cards(), fourth_is_best(calls, 4));
  ASSERT_EQ(answer.candidates.size(), 4U);
  const Candidate& best = answer.candidates.front();
  EXPECT_TRUE(answer.simulation_decides);
  EXPECT_EQ(step_of(best.simulated), step_of(best.metrics));
  EXPECT_GT(step_of(best.metrics), answer.search.best);
  EXPECT_FALSE(answer.search.proved_optimal);
  EXPECT_LE(answer.search.lower_bound, answer.search.best);
  for (std::size_t c = 1; c < answer.candidates.size(); ++c)
    EXPECT_LE(step_of(answer.candidates[c - 1].simulated), step_of(answer.candidates[c].simulated));
  EXPECT_THAT(answer.notes, Contains(HasSubstr("proved on idle links, for the least estimate (")));
  const std::string text = to_table(answer, {}, 0);
  EXPECT_THAT(text, HasSubstr(" simulated  (the least of those simulated; estimated "));
  EXPECT_THAT(text, HasSubstr(", not proved; plan 2 is estimated faster, "));
  EXPECT_LT(text.find("simulated  estimated"), text.find("plan\n"));
}

TEST(SearchAuto, WhereTheFastestEstimateWinsTheProofIsOfIt) {
  SearchOptions options;
  options.simulate = [](const TaskGraph& graph, const Cluster&) { return estimate(graph); };
  const Answer answer = answer_of(testing::four_cards(), options);
  EXPECT_THAT(to_table(answer, {}, 0), HasSubstr(", proved on idle links but for zb-auto, zb-v-auto, chimera, dualpipe: no "
                                                 "other searched plan is estimated faster)\n"));
  const Answer unsimulated = answer_of(testing::four_cards());
  EXPECT_FALSE(unsimulated.simulation_decides);
  EXPECT_THAT(to_table(unsimulated, {}, 0),
              HasSubstr(" estimated  (proved on idle links but for zb-auto, zb-v-auto, chimera, dualpipe: no other "));
  const Answer stated = answer_of(testing::four_cards("schedule: 1f1b\n"));
  EXPECT_THAT(to_table(stated, {}, 0), HasSubstr(" estimated  (proved on idle links: no searched plan is estimated faster)\n"));
}

// Of a run the figures are those of the step in the headline: where the simulation decides, twice the estimated time.
TEST(SearchAuto, TheRunIsOfTheStepThatDecides) {
  SearchOptions options;
  const Scenario scenario = testing::four_cards("run: {steps: 1000}\n", {"batch.micro=1", "schedule=1f1b"});
  const Answer estimated = answer_of(scenario, options);
  options.simulate = [](const TaskGraph& graph, const Cluster&) {
    Timeline timeline = estimate(graph);
    timeline.step_time = timeline.step_time * 2.0;
    return timeline;
  };
  const Answer simulated = answer_of(scenario, options);
  ASSERT_TRUE(simulated.simulation_decides);
  const Candidate& best = simulated.candidates.front();
  ASSERT_TRUE(best.run.has_value());
  EXPECT_DOUBLE_EQ(best.run->time_s, 1000 * step_of(best.simulated));
  const Candidate& alone = estimated.candidates.front();
  EXPECT_DOUBLE_EQ(alone.run->time_s, 1000 * step_of(alone.metrics));
}

// 124 M parameters take 2.3 GB and their activations less than that: 20 times as much does not fit 24 GB, what the replayed
// allocator adds does.
TEST(SearchAuto, WhatFitsByTheReplayAloneIsFound) {
  const auto scenario = [](const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\n"
        "cluster: {file: clusters/rtx3090x8.yaml}\n"
        "workload: {model: gpt, layers: 12, hidden: 768, heads: 12, sequence: 256, vocabulary: 50257}\n"
        "batch: {micro: auto, global: 16}\n"
        "precision: bf16\n"
        "framework: {name: eager-sdpa, allocator: caching, allocator_factor: 20}\n"
        "parallel: {pipeline: auto, data: auto}\n"
        "schedule: 1f1b\n",
        "replayed.yaml", ".", overrides);
  };
  const Answer answer = answer_of(scenario({}));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  EXPECT_TRUE(expect_again(answer.candidates.front(), scenario).fits);
}

// 1f1b holds eight microbatches on the first rank, and balanced cuts give it the embedding too. A block more on the last rank,
// which holds one microbatch, and the plan fits.
TEST(SearchAuto, CutsThatFitAreFoundWhereBalancedOnesDoNot) {
  const auto scenario = [](const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\n"
        "cluster: {file: clusters/rtx4090x8.yaml, nodes: 2}\n"
        "workload: {config: {model_type: llama, hidden_size: 3072, intermediate_size: 8192, num_hidden_layers: 28, "
        "num_attention_heads: 24, num_key_value_heads: 8, vocab_size: 128256}, sequence: 4096}\n"
        "batch: {micro: 1, global: 256}\n"
        "precision: bf16\n"
        "optimizer: adamw\n"
        "framework: megatron-core\n"
        "parallel: {pipeline: 8, tensor: 1, data: 2, zero: 1}\n"
        "schedule: 1f1b\n"
        "usable: 90 %\n"
        "recompute: none\n",
        "tight.yaml", ".", overrides);
  };
  ASSERT_FALSE(estimated(scenario({})).fits);
  const Answer answer = answer_of(scenario({}));
  ASSERT_FALSE(answer.candidates.empty()) << answer.reason;
  const Candidate& best = answer.candidates.front();
  const Metrics again = expect_again(best, scenario);
  EXPECT_TRUE(again.fits);
  // Found by hand: the second rank, which is the busiest once it fits, gives a block to the last one, over five others.
  EXPECT_LE(again.step_time_s, estimated(scenario({"partition=[7, 15, 23, 31, 39, 47, 55]"})).step_time_s);
}

// A family with a choice of stages per rank is also tried with one where it is stated, and 1f1b does not stand for it.
TEST(SearchAuto, OneStageARankIsTriedWhereTheFamilyIsStated) {
  const auto scenario = [](const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\n"
        "cluster: {file: clusters/rtx3090x8.yaml}\n"
        "workload: {model: vit, layers: 2, hidden: 2048, heads: 16, image: 224, patch: 16}\n"
        "batch: {micro: auto, microbatches: 16}\n"
        "precision: bf16\n"
        "schedule: interleaved-1f1b\n"
        "recompute: auto\n"
        "framework: stp\n",
        "one-stage.yaml", ".", overrides);
  };
  const double one_each = estimated(scenario({"batch={micro: 2, microbatches: 4}", "recompute=none",
                                              "parallel={pipeline: 2, data: 2, virtual_stages: 1, zero: 2}"}))
                              .step_time_s;
  EXPECT_LE(answer_of(scenario({})).search.best, one_each * (1 + 1e-12));
  const Answer stated = answer_of(scenario({"parallel={virtual_stages: 1}"}));
  ASSERT_FALSE(stated.candidates.empty()) << stated.reason;
}

// Cuts are moved for the best of several degrees: two layers in one microbatch of eight gain more by it than in two of four.
TEST(SearchAuto, ALargerSpaceHasNoSlowerAnswer) {
  const auto scenario = [](const std::vector<std::string>& overrides) {
    return parse_scenario(
        "panpipe: 1\n"
        "cluster: {file: clusters/a100-80g-pcie-x4.yaml}\n"
        "workload: {config: {model_type: mixtral, hidden_size: 2048, intermediate_size: 4096, num_hidden_layers: 2, "
        "num_attention_heads: 16, num_key_value_heads: 16, vocab_size: 32000, num_local_experts: 8, num_experts_per_tok: 2}, "
        "sequence: 512}\n"
        "batch: {micro: auto, microbatches: 8}\n"
        "precision: bf16\n"
        "parallel: {pipeline: 2, tensor: 2, data: 1, sequence_parallel: true, zero: 0, expert: 1}\n"
        "framework: megatron-core\n"
        "schedule: auto\n"
        "recompute: auto\n",
        "larger.yaml", ".", overrides);
  };
  const double all = answer_of(scenario({})).search.best;
  EXPECT_LE(all, answer_of(scenario({"recompute=none"})).search.best * (1 + 1e-12));
  EXPECT_LE(all, answer_of(scenario({"batch={micro: 8, microbatches: 1}"})).search.best * (1 + 1e-12));
}

// How many are shown is a matter of display.
TEST(SearchAuto, TheBestDoesNotDependOnHowManyAreShown) {
  std::vector<std::string> best;
  std::vector<int> simulated;
  for (const std::size_t shown : {1, 2, 20}) {
    int calls = 0;
    const Answer answer = answer_of(testing::four_cards(), fourth_is_best(calls, shown));
    simulated.push_back(calls);
    EXPECT_LE(answer.candidates.size(), shown);
    best.push_back(answer.candidates.front().summary);
    EXPECT_EQ(answer.candidates.back().simulated.empty(), shown == 20);  // after those that were simulated
  }
  EXPECT_GE(simulated[0], 8);
  EXPECT_EQ(simulated, std::vector<int>(3, simulated[0]));
  EXPECT_EQ(best[0], best[1]);
  EXPECT_EQ(best[0], best[2]);
}

// Families that are tried last: what was tried, and whether the answer is one of them.
TEST(SearchAuto, ReportsWhatWasTriedLast) {
  const auto last_note = [](const Answer& answer) {
    for (const std::string& note : answer.notes)
      if (note.find("tried last") == 0) return note;
    return std::string();
  };
  int tried = 0, chosen = 0;
  for (const char* more :
       {"parallel: {pipeline: 4, zero: 0}\n", "parallel: {pipeline: 2, zero: 0}\n", "parallel: {pipeline: 1}\n"}) {
    const Answer answer = answer_of(testing::four_cards(more));
    const std::string note = last_note(answer);
    const std::string& schedule = answer.candidates.front().schedule;
    const bool last = schedule == "zb-auto" || schedule == "zb-v-auto" || schedule == "chimera" || schedule == "dualpipe";
    EXPECT_EQ(note.find("the plan chosen is one of them (" + schedule) != std::string::npos, last) << note;
    tried += note.empty() ? 0 : 1;
    chosen += last ? 1 : 0;
  }
  EXPECT_EQ(tried, 2);   // on one rank there is nothing to try
  EXPECT_GE(chosen, 1);  // or this test sees nothing
}

}  // namespace
}  // namespace panpipe::planner
