// Schedules drawn for people and written for programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/schedule/drawn_rows.hpp"

namespace panpipe {
namespace {

using test::from_rows;
using testing::HasSubstr;

TEST(Draw, ProportionalTime) {
  // 1f1b, 2 ranks, 2 microbatches, F=1, B=2: rank 0 is 0F0 0..1, 0F1 1..2, 0B0 4..6, 0B1 7..9; rank 1 is 1F0 1..2, 1B0 2..4,
  // 1F1 4..5, 1B1 5..7. 47 columns less the name hold 9 units of 4 columns.
  const Schedule schedule = make_schedule("1f1b", 2, 2);
  EXPECT_EQ(draw(schedule, evaluate(schedule, {}), 47, false),
            "rank 0 0F0-0F1-........0B0-----....0B1-----\n"
            "rank 1 ....1F0-1B0-----1F1-1B1-----........\n");
}

TEST(Draw, NarrowTerminalsKeepTheLetters) {
  const Schedule schedule = make_schedule("1f1b", 2, 2);
  EXPECT_EQ(draw(schedule, evaluate(schedule, {}), 20, false),
            "rank 0 FF..B-.B-\n"
            "rank 1 .FB-FB-..\n");
}

TEST(Draw, ColourDoesNotChangeTheText) {
  const Schedule schedule = make_schedule("zb-h1", 3, 6);
  const auto evaluation = evaluate(schedule, {});
  std::string plain;
  bool escape = false;
  for (const char c : draw(schedule, evaluation, 100, true)) {
    if (c == '\x1b') escape = true;
    if (!escape) plain += c;
    if (c == 'm') escape = false;
  }
  EXPECT_EQ(plain, draw(schedule, evaluation, 100, false));
}

TEST(Draw, NeverWiderThanAsked) {
  for (int p : {1, 4, 12})
    for (int m : {1, 8, 50})
      for (int width : {40, 80, 200}) {
        const Schedule schedule = make_schedule("1f1b", p, m);
        const std::string text = draw(schedule, evaluate(schedule, {10, 12, 8, std::nullopt, 1}), width, false);
        for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
          EXPECT_LE(text.find('\n', at) - at, static_cast<std::size_t>(width));
      }
}

TEST(Grid, MarksTheFault) {
  const Schedule schedule = from_rows({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  EXPECT_EQ(grid(schedule, check_schedule(schedule)),
            "        Rank 0              Rank 1\n"
            "Step 0  0F0                 1F0\n"
            "Step 1  0B0 <-- ERROR HERE  1F1\n"
            "Step 2  0F1                 1B0\n"
            "Step 3  0B1                 1B1\n");
}

TEST(Grid, LongRowsAreShownAroundTheFault) {
  const std::string text = grid(make_schedule("gpipe", 2, 20), {{1, 20, "1B0", "made up"}});
  EXPECT_THAT(text, HasSubstr("... 14 steps before\n"));
  EXPECT_THAT(text, HasSubstr("... 13 steps after\n"));
  EXPECT_THAT(text, HasSubstr("1B0 <-- ERROR HERE\n"));
}

TEST(Document, OfALegalOrder) {
  const Schedule schedule = make_schedule("interleaved-1f1b", 2, 2, {{"combined", "true"}});
  const auto document = nlohmann::json::parse(to_json(schedule, check_schedule(schedule), evaluate(schedule, {})));
  EXPECT_EQ(document["schema"], "panpipe-schedule/1");
  EXPECT_EQ(document["name"], "interleaved-1f1b");
  EXPECT_EQ(document["ranks"], 2);
  EXPECT_EQ(document["microbatches"], 2);
  EXPECT_EQ(document["stages"], 4);
  EXPECT_EQ(document["stage_to_rank"], nlohmann::json({0, 1, 0, 1}));
  EXPECT_EQ(document["chains"], nlohmann::json::parse("[[0,1,2,3]]"));
  EXPECT_EQ(document["actions"][1], nlohmann::json({"1F0", "1F1", "3F0", "(3F1;3B0)OVERLAP_F_B", "3B1", "1B0", "1B1"}));
  EXPECT_EQ(document["legal"], true);
  EXPECT_EQ(document["problems"].size(), 0u);
  EXPECT_EQ(document["makespan"].get<double>(), evaluate(schedule, {}).makespan);
  EXPECT_EQ(document["busy"].size(), 2u);
  for (const char* key : {"span", "bubble_step", "bubble_span"}) EXPECT_TRUE(document[key].is_number()) << key;
  EXPECT_EQ(document["peak_activations"].size(), 2u);
}

TEST(Document, OfAnIllegalOrder) {
  const Schedule schedule = from_rows({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"});
  const auto document = nlohmann::json::parse(to_json(schedule, check_schedule(schedule), std::nullopt));
  EXPECT_EQ(document["legal"], false);
  ASSERT_EQ(document["problems"].size(), 2u);
  EXPECT_EQ(document["problems"][0]["rank"], 0);
  EXPECT_EQ(document["problems"][0]["position"], 1);
  EXPECT_EQ(document["problems"][0]["action"], "0B0");
  EXPECT_TRUE(document["makespan"].is_null());
}

}  // namespace
}  // namespace panpipe
