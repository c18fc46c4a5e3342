// Answers as text, of plans made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "planner/answer_text.hpp"
#include "planner/candidate.hpp"
#include "tests/planner/auto/scenarios.hpp"

namespace panpipe::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlannedStage stage_of(std::vector<std::string> operators, std::vector<int> devices) {
  PlannedStage stage;
  stage.operators = std::move(operators);
  stage.devices = std::move(devices);
  return stage;
}

Answer answer_of(std::vector<PlannedStage> stages, int devices) {
  Candidate candidate;
  candidate.summary = "by hand";
  candidate.metrics = {{"step_time_s", 2.0},
                       {"peak_memory_bytes", 1000.0 * (1 << 20)},
                       {"memory_limit_bytes", 1020.0 * (1 << 20)},
                       {"memory_share", 1000.0 / 1020}};
  candidate.stages = std::move(stages);
  Answer answer;
  answer.objective = "step_time_s";
  answer.candidates = {candidate};
  answer.devices = devices;
  return answer;
}

TEST(AnswerTable, NamesIdleDevicesAndWhatIsLeftOfTheMemory) {
  const Answer answer = answer_of({stage_of({"a"}, {0, 1, 2}), stage_of({"b"}, {3, 4, 5})}, 8);
  const std::string text = to_table(answer, {}, 0);
  EXPECT_THAT(text, HasSubstr("\n  warning: 2 of 8 devices are not used: 6-7\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\n  memory: the fullest device needs 1000.00 MiB of 1020.00 MiB usable, 98 %; 20.00 MiB are left, less than the "
                "memory model's own error (5 %)\n"));
  EXPECT_THAT(to_json(answer), HasSubstr("\"unused_devices\": [6, 7]"));
  EXPECT_THAT(to_table(answer_of({stage_of({"a"}, {0, 1})}, 2), {}, 0), Not(HasSubstr("not used")));
}

// Steps of 2, 2.05 and 2.2 s: 2.5 % apart are a tie within 3 %, 10 % are none.
TEST(AnswerTable, ARunnerUpThatTheErrorsDoNotReportApartIsATie) {
  Answer answer = answer_of({stage_of({"a"}, {0, 1})}, 2);
  for (const double step : {2.05, 2.2}) {
    answer.candidates.push_back(answer.candidates.front());
    answer.candidates.back().metrics.front().second = step;
  }
  EXPECT_THAT(to_table(answer, {}, 0), Not(HasSubstr("a tie")));  // nothing was compared
  answer.tie_within = 0.03;
  EXPECT_THAT(
      to_table(answer, {}, 0),
      HasSubstr("\n  a tie with plan 2: measured, one of ten pairs of plans that are predicted 3.0 % apart is the other way "
                "round\n"));
  const std::string json = to_json(answer);
  EXPECT_THAT(json, HasSubstr("\"tie_within\": 0.03"));
  EXPECT_FALSE(is_tie(answer, answer.candidates[0]));
  EXPECT_TRUE(is_tie(answer, answer.candidates[1]));
  EXPECT_FALSE(is_tie(answer, answer.candidates[2]));
  answer.candidates.front().metrics.insert(answer.candidates.front().metrics.end(),
                                           {{"step_time_p10_s", 1.8}, {"step_time_p50_s", 2}, {"step_time_p90_s", 2.25}});
  Evidence& evidence = answer.candidates.front().evidence.emplace();
  evidence.of_class = "dense, NVLink", evidence.limits = {"half of it: host"};
  EXPECT_THAT(to_table(answer, {}, 0),
              HasSubstr("\n  80 % of runs are expected from 1.8 s to 2.25 s, half above 2 s; half of it: host\n"));
}

// Two cards, four plans of one stage; times in s, memory in MiB of 1020.
struct Row {
  double step = 0, memory = 0;
};
Candidate candidate_of(const std::string& summary, const Row& row) {
  Candidate candidate;
  candidate.summary = summary;
  candidate.metrics = {{"step_time_s", row.step},
                       {"peak_memory_bytes", row.memory * (1 << 20)},
                       {"memory_limit_bytes", 1020.0 * (1 << 20)},
                       {"memory_share", row.memory / 1020},
                       {"fits", row.memory <= 1020 ? 1.0 : 0.0}};
  candidate.stages = {stage_of({"a"}, {0, 1})};
  return candidate;
}

Answer beside_yours(const Row& yours, std::vector<Row> found) {
  Answer answer;
  answer.objective = "step_time_s";
  answer.devices = 2;
  answer.tie_within = 0.03;
  answer.search.evaluated = 7;
  for (const Row& row : found) answer.candidates.push_back(candidate_of("found", row));
  answer.yours = candidate_of("mine", yours);
  return answer;
}

// Of 1020 MiB, 1000 leave 2 %: less than the memory model's error. 1 - 1.5 / 2 = 25 %.
TEST(AnswerSummary, APlanThatHardlyFitsStandsBehindAndStatesItsGain) {
  Answer answer = beside_yours({4.0, 500}, {{1.5, 1000}, {1.6, 1030}, {2.0, 800}, {2.5, 1000}});
  order_by_room(testing::four_cards(), answer.candidates);
  EXPECT_EQ(answer.candidates.front().metrics.front().second, 2.0);
  EXPECT_EQ(to_summary(answer, {}),
            "plan 1 takes 50.0 % less time than yours: step 2 s estimated, yours 4 s\n"
            "         estimated    gain            memory                plan\n"
            "  yours        4 s            500 MiB   49 %                mine\n"
            "      1        2 s  50.0 %    800 MiB   78 %                found\n"
            "      2      1.5 s  62.5 %   1000 MiB   98 %  hardly fits   found\n"
            "      3      2.5 s  37.5 %   1000 MiB   98 %  hardly fits   found\n"
            "      4      1.6 s  60.0 %  1.006 GiB  100 %  does not fit  found\n"
            "  plan 2 takes 25.0 % less time than plan 1, and hardly fits (1000.00 MiB of 1020.00 MiB usable, 98 %)\n"
            "  7 plans evaluated, not proved; --verbose shows stages and search\n");
  EXPECT_THAT(to_json(answer), HasSubstr("\"gain_over_best\": 0.25,"));
  EXPECT_FALSE(gain_without_room(answer, answer.candidates[2]));
}

TEST(AnswerSummary, ShowsYoursAboveThePlansWithWhatEachGains) {
  const Answer answer = beside_yours({4.0, 500}, {{2.0, 800}, {2.05, 800}, {4.1, 900}});
  EXPECT_EQ(to_summary(answer, {}),
            "plan 1 takes 50.0 % less time than yours: step 2 s estimated, yours 4 s\n"
            "         estimated    gain          memory         plan\n"
            "  yours        4 s          500 MiB   49 %         mine\n"
            "      1        2 s  50.0 %  800 MiB   78 %         found\n"
            "      2     2.05 s  48.8 %  800 MiB   78 %  a tie  found\n"
            "      3      4.1 s  -2.5 %  900 MiB   88 %         found\n"
            "  plans within 3.0 % are a tie\n"
            "  7 plans evaluated, not proved; --verbose shows stages and search\n");
  EXPECT_FALSE(ties_with_yours(answer, answer.candidates[1]));
  EXPECT_TRUE(ties_with_yours(answer, answer.candidates[2]));
  EXPECT_NEAR(*gain_over_yours(answer, answer.candidates[1]), 0.4875, 1e-12);
  const std::string json = to_json(answer);
  EXPECT_THAT(json, HasSubstr("\"yours\": {"));
  EXPECT_THAT(json, HasSubstr("\"gain_over_yours\": 0.5,\n    \"tie_with_yours\": false"));
  EXPECT_THAT(to_table(answer, {}, 0), HasSubstr("\n  yours        4 s          -          500 MiB   49 %"));
}

TEST(AnswerSummary, SaysWhetherYoursIsGood) {
  const auto first_line = [](const Answer& answer) {
    return to_summary(answer, {}).substr(0, to_summary(answer, {}).find('\n'));
  };
  EXPECT_EQ(first_line(beside_yours({2.04, 500}, {{2.0, 800}})),
            "plan 1 takes 2.0 % less time than yours, a tie: step 2 s estimated, yours 2.04 s");
  EXPECT_EQ(first_line(beside_yours({2.0, 500}, {{2.0, 500}})), "yours is as fast as the best plan found: step 2 s estimated");
  EXPECT_EQ(first_line(beside_yours({1.0, 500}, {{2.0, 800}})),
            "yours is faster than every plan found: step 2 s estimated, yours 1 s");
  EXPECT_EQ(first_line(beside_yours({1.0, 1200}, {{2.0, 800}})),
            "yours does not fit (1.17 GiB of 1020.00 MiB usable, 118 %, 180.00 MiB too much); plan 1 does: step 2 s estimated, "
            "yours 1 s");
  Answer alone = beside_yours({2.0, 500}, {{2.0, 500}});
  alone.search.evaluated = 1;
  EXPECT_EQ(first_line(alone), "yours is the only plan searched: step 2 s estimated");
  alone.yours.reset();
  alone.without_yours = "your plan cannot run: it has no wheels";
  EXPECT_EQ(first_line(alone), "step 2 s estimated");
  EXPECT_THAT(to_summary(alone, {}), HasSubstr("\n  your plan cannot run: it has no wheels\n"));
}

// A plan that the trainer does not have is no plan to compare with, whatever it would take.
TEST(AnswerSummary, SaysWhatTheTrainerCannotRunOfYours) {
  Answer answer = beside_yours({4.0, 500}, {{2.0, 800}});
  answer.candidates.front().cautions = {"needs care"};
  answer.yours->cautions = {"needs care", "torchtitan does not have ZeRO 1: it has 2, 3"};
  const std::string lines = "\n  caution: needs care\n  caution for yours: torchtitan does not have ZeRO 1: it has 2, 3\n";
  EXPECT_THAT(to_summary(answer, {}), HasSubstr(lines));
  EXPECT_THAT(to_table(answer, {}, 0), HasSubstr(lines));
}

TEST(AnswerSummary, WhereNothingFitsYoursIsShownToo) {
  Answer answer = beside_yours({2.0, 1200}, {});
  answer.reason = "memory is in the way";
  EXPECT_EQ(to_summary(answer, {}),
            "no plan: memory is in the way\n"
            "         estimated  gain            memory                plan\n"
            "  yours        2 s        1.172 GiB  117 %  does not fit  mine\n"
            "  --verbose says what was searched\n");
}

// Ten stages: the first and the last differ from those between.
TEST(AnswerTable, StagesThatAreAlikeAreOneRow) {
  std::vector<PlannedStage> stages = {stage_of({"embedding"}, {0, 1})};
  for (int s = 1; s < 9; ++s)
    stages.push_back(stage_of({"first." + std::to_string(s), "second." + std::to_string(s)}, {2 * s, 2 * s + 1}));
  stages.push_back(stage_of({"head"}, {18, 19}));
  const std::string text = to_table(answer_of(stages, 20), {}, 0);
  EXPECT_THAT(text, HasSubstr("\n      0      1  embedding                1       1           0  0-1\n"
                              "    1-8      2  first.1 ... second.8     1       1           0  2-17, 2 a stage\n"
                              "      9      1  head                     1       1           0  18-19\n"));
  stages.resize(3);  // few stages keep their rows
  EXPECT_THAT(to_table(answer_of(stages, 20), {}, 0), HasSubstr("first.2 ... second.2"));
}

// Ranks of a copy side by side: every stage has blocks at equal distances.
TEST(AnswerTable, EightThousandDevicesAreAFewRanges) {
  std::vector<PlannedStage> stages;
  for (int s = 0; s < 40; ++s) {
    std::vector<int> devices;
    for (int copy = 0; copy < 25; ++copy)
      for (int t = 0; t < 8; ++t) devices.push_back((copy * 40 + s) * 8 + t);
    stages.push_back(stage_of(std::vector<std::string>(static_cast<std::size_t>(1 + s % 2), "unit"), devices));  // no two alike
  }
  const std::string text = to_table(answer_of(stages, 8000), {}, 0);
  EXPECT_LT(text.size(), 10'000u);
  EXPECT_THAT(text, HasSubstr("  0-7, 320-327 ... 7680-7687\n"));
}

TEST(AnswerTable, ProgressHasTheUnitOfTheObjective) {
  EXPECT_EQ(objective_text("step_time_s", 18.1693), "18.2 s");
  EXPECT_EQ(objective_text("time_per_sample", 18.1693), "18.1693");
}

}  // namespace
}  // namespace panpipe::planner
