// The table of what does not go together: no combination is refused twice, and the page lists what the table holds.
#include "schedule/goes_together.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

std::string_view refused_by(Where where) {
  return where == Where::Predicted ? "every verb" : where == Where::Searched ? "`plan`" : "`run`";
}

std::string line_of(const Conflict& row) {
  return fmt::format("| {} | {} | {} | {} |\n", name_of(row.one), name_of(row.other), refused_by(row.where), row.why);
}

TEST(GoesTogether, ThePageListsTheTable) {
  const std::string page = test::read_file(PANPIPE_SOURCE "/docs/models/combinations.md");
  std::string table;
  for (const Conflict& row : conflicts()) table += line_of(row);
  const std::size_t heading = page.find("| feature | with | refused by | reason |\n|---|---|---|---|\n" + table);
  EXPECT_NE(heading, std::string::npos) << "the page should have:\n" << table;
}

TEST(GoesTogether, ARefusalStandsOnce) {
  std::set<std::pair<Feature, Feature>> predicted;
  std::set<std::tuple<Feature, Feature, Where>> all;
  for (const Conflict& row : conflicts()) {
    const auto pair = std::minmax(row.one, row.other);
    EXPECT_TRUE(all.insert({pair.first, pair.second, row.where}).second) << text_of(row);
    if (row.where == Where::Predicted) predicted.insert(pair);
  }
  for (const Conflict& row : conflicts())
    if (row.where != Where::Predicted) {
      EXPECT_EQ(predicted.count(std::minmax(row.one, row.other)), 0u) << text_of(row);
    }
}

TEST(GoesTogether, ARowNeedsBothOfItsFeaturesAndItsVerb) {
  Features features;
  features.add(Feature::NoFlush);
  EXPECT_EQ(conflict_of(features, Where::Executed), nullptr);
  features.add(Feature::Context);
  EXPECT_EQ(conflict_of(features, Where::Predicted), nullptr);
  ASSERT_NE(conflict_of(features, Where::Executed), nullptr);
  EXPECT_EQ(text_of(*conflict_of(features, Where::Executed)),
            "the executor does not have steps without a flush and context parallelism together: its ranks are updated at "
            "different times");
}

// An order from a file that states both.
TEST(GoesTogether, OrdersAreAsked) {
  Schedule schedule = make_schedule("1f1b", 2, 4, {{"vocabulary", "stages"}});
  EXPECT_TRUE(check_schedule(schedule).empty());
  for (auto& row : schedule.order) row.push_back({.kind = ActionKind::Opt});
  const std::vector<ScheduleProblem> problems = check_schedule(schedule);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.front().message,
            "a vocabulary that is cut over the stages and steps without a flush do not go together: its passes end with a flush");
}

}  // namespace
}  // namespace panpipe
