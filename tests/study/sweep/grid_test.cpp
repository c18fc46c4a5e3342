// Grids: what --over means, in which order cells stand, and what a cell's key depends on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "study/sweep/cell.hpp"
#include "study/sweep/grid.hpp"
#include "tests/fault.hpp"

namespace panpipe::study {
namespace {

using Texts = std::vector<std::string>;

using test::fault_of;

SweepGrid grid_of(std::vector<SweepAxis> axes, Texts sets = {}) {
  SweepGrid grid;
  grid.version = "1";
  grid.scenario = "a.yaml";
  grid.engine = "estimate";
  grid.sets = std::move(sets);
  grid.axes = std::move(axes);
  return grid;
}

TEST(SweepGrid, CommasInsideBracketsAndQuotesBelongToTheValue) {
  EXPECT_EQ(parse_axis("parallel.pipeline=2,4,8").values, (Texts{"2", "4", "8"}));
  EXPECT_EQ(parse_axis("cluster={file: a.yaml, nodes: 2}, b.yaml").values, (Texts{"{file: a.yaml, nodes: 2}", "b.yaml"}));
  EXPECT_EQ(parse_axis("partition=[1, 2],auto").values, (Texts{"[1, 2]", "auto"}));
  EXPECT_EQ(parse_axis("cluster=\"a,b.yaml\",c.yaml").values, (Texts{"\"a,b.yaml\"", "c.yaml"}));
  EXPECT_EQ(parse_axis("schedule={name: pfeife, prefetch: [1,2]},1f1b").values.size(), 2U);
}

TEST(SweepGrid, WrongAxesAreExplained) {
  EXPECT_EQ(fault_of([] {
              check_grid(grid_of({{"a", {"1"}}, {"a", {"2"}}}));
            }),
            "--over: error: the key a is varied twice\n  help: give all its values at once");
  EXPECT_EQ(fault_of([] {
              check_grid(grid_of({{"a", {"1"}}}, {"a=3"}));
            }),
            "--over: error: the key a is varied, and overridden as well\n  help: leave one of the two out");
  EXPECT_EQ(fault_of([] { check_grid(grid_of({})); }),
            "--over: error: there is nothing to vary\n  help: give a key and its values");
}

TEST(SweepGrid, TheLastAxisVariesFastest) {
  const SweepGrid grid = grid_of({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}}, {"c=9"});
  ASSERT_EQ(grid.size(), 6U);
  EXPECT_EQ(grid.values(0), (Texts{"1", "x"}));
  EXPECT_EQ(grid.values(1), (Texts{"1", "y"}));
  EXPECT_EQ(grid.values(3), (Texts{"2", "x"}));
  EXPECT_EQ(grid.overrides(5), (Texts{"c=9", "a=2", "b=z"}));
  EXPECT_EQ(grid.title(5), "a=2, b=z");
}

TEST(SweepGrid, KeysReportApartWhatMatters) {
  const SweepGrid grid = grid_of({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}});
  std::set<std::string> keys;
  for (std::size_t i = 0; i < grid.size(); ++i) keys.insert(grid.key(i));
  EXPECT_EQ(keys.size(), grid.size());
  SweepGrid larger = grid;
  larger.axes[1].values.push_back("w");
  EXPECT_EQ(larger.key(0), grid.key(0));  // a grid that grew keeps its cells
  EXPECT_EQ(larger.key(4), grid.key(3));
  const auto changed = [&](auto change) {
    SweepGrid other = grid;
    change(other);
    return other.key(0) != grid.key(0);
  };
  EXPECT_TRUE(changed([](SweepGrid& other) { other.version = "2"; }));
  EXPECT_TRUE(changed([](SweepGrid& other) { other.scenario = "b.yaml"; }));
  EXPECT_TRUE(changed([](SweepGrid& other) { other.engine = "simulate"; }));
  EXPECT_TRUE(changed([](SweepGrid& other) { other.method = "auto"; }));
  EXPECT_TRUE(changed([](SweepGrid& other) { other.sets = {"c=1"}; }));
}

TEST(SweepGrid, DocumentsReadBack) {
  SweepGrid grid = grid_of({{"a", {"1", "2"}}, {"b", {"{x: \"q\"}"}}}, {"c=9"});
  grid.method = "pfeife";
  EXPECT_EQ(to_json(parse_grid(to_json(grid), "grid.json")), to_json(grid));
  EXPECT_THAT(fault_of([] { parse_grid("{}", "d/grid.json"); }),
              ::testing::StartsWith("d/grid.json: error: this is not the grid of a sweep"));
}

TEST(SweepCell, LinesReadBackToTheLastBit) {
  SweepCell cell;
  cell.index = 7;
  cell.key = "abc";
  cell.status = CellStatus::TooLarge;
  cell.reason = "device 0 needs \"26\" GiB";
  cell.metrics = {{"step_time_s", 0.1 + 0.2}, {"mfu", 1.0 / 3}, {"peak_memory_bytes", 27514740736.0}};
  cell.plan = "zb-h1";
  cell.evidence = {"half of the runs take more", "run.log (log)"};
  cell.inputs = {{"a.yaml", "00ff"}};
  const std::string line = to_line(cell);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = parse_line(line);
  ASSERT_TRUE(back);
  EXPECT_EQ(to_line(*back), line);
  EXPECT_EQ(back->metrics, cell.metrics);
  EXPECT_EQ(back->evidence, cell.evidence);
  EXPECT_EQ(back->status, CellStatus::TooLarge);
  for (std::size_t length = 0; length < line.size(); ++length) EXPECT_FALSE(parse_line(line.substr(0, length))) << length;
}

}  // namespace
}  // namespace panpipe::study
