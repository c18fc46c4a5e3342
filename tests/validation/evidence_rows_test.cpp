// Intervals of compared rows: no source judges itself, and intervals hold as many runs of sources never seen as they state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/validation/run_fixture.hpp"
#include "validation/runs/run_evidence.hpp"
#include "validation/runs/run_report.hpp"

namespace panpipe::validation {
namespace {

Likeness kind_of(const std::string& framework) {
  return {"A100-SXM", framework, "16 bit", "data", framework, "none", "formulas", false};
}

RunPrediction compared(const std::string& source, const Likeness& kind, double predicted, double measured, int gpus = 8) {
  RunPrediction run;
  run.row.source = source;
  run.row.id = source + "-" + std::to_string(measured);
  run.row.gpu = "A100-80G-SXM";
  run.row.gpus = gpus;
  run.row.step_s = measured;
  run.predicted_s = predicted;
  run.kind = kind;
  return run;
}

// Normal numbers by Box and Muller: the same with every library.
class Normal {
 public:
  double operator()(double deviation) {
    const double u = uniform(), v = uniform();
    return deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }
  int between(int low, int high) { return low + static_cast<int>(uniform() * (high - low)); }

 private:
  double uniform() { return (static_cast<double>(engine_()) + 1) / 4294967297.0; }
  std::mt19937 engine_{7};
};

// Runs of sources: each source has a bias of its own, and its runs scatter around it.
std::vector<RunPrediction> sources_of(Normal& normal, int sources, double between, double within, const std::string& prefix) {
  std::vector<RunPrediction> runs;
  for (int s = 0; s < sources; ++s) {
    const double bias = normal(between);
    for (int count = normal.between(4, 60); count > 0; --count)
      runs.push_back(compared(prefix + std::to_string(s), kind_of("megatron"), 1, std::exp(bias + normal(within))));
  }
  return runs;
}

double share_inside(const EvidenceTable& table, const std::vector<RunPrediction>& runs) {
  const StepInterval interval = table.interval(runs.front().kind);  // all are of one kind
  double inside = 0;
  for (const RunPrediction& run : runs) inside += interval.low <= *run.row.step_s && *run.row.step_s <= interval.high;
  return inside / static_cast<double>(runs.size());
}

// Whether bias or scatter is the larger: an interval of 80 % holds 75 to 85 % of new sources' runs. The coverage of one table of
// 30 sources varies by sqrt(0.8 x 0.2 / 30) = 7 %, so the mean of 40 tables is asked: 1.2 %.
TEST(EvidenceRows, IntervalsHoldWhatTheyStateOfSourcesNeverSeen) {
  for (const auto& [between, within] : {std::pair(0.1, 0.03), std::pair(0.03, 0.1), std::pair(0.08, 0.08)}) {
    Normal normal;
    constexpr int kTables = 40;
    double inside = 0;
    for (int table = 0; table < kTables; ++table) {
      const EvidenceTable evidence = make_evidence(sources_of(normal, 30, between, within, "seen"));
      inside += share_inside(evidence, sources_of(normal, 100, between, within, "new")) / kTables;
    }
    EXPECT_GE(inside, 0.75) << between << " " << within;
    EXPECT_LE(inside, 0.85) << between << " " << within;
  }
}

// The factor follows from the left-out errors: four sources of a run each, off by 0.1, 0.1, 0.1 and 0.4. Left out, one of 0.1
// sees (0.1, 0.1, 0.4): middles 1/6, 1/2, 5/6, so 0.1 + 0.3 x (0.8 - 0.5) x 3 = 0.37, times 1 + 1/3: ratio 0.1 / 0.49333 =
// 0.2027. The one of 0.4 sees 0.1 x 4/3: ratio 3. Ratios with middles 1/8, 3/8, 5/8, 7/8: at 0.8 it is 0.2027 + 2.7973 x (0.8 -
// 0.625) / 0.25 = 2.1608.
TEST(EvidenceRows, TheWideningComesFromSourcesLeftOut) {
  std::vector<RunPrediction> runs;
  for (const auto& [source, off] : {std::pair("one", 0.1), {"two", 0.1}, {"three", 0.1}, {"four", 0.4}})
    runs.push_back(compared(source, kind_of("megatron"), 1, std::exp(off)));
  const EvidenceTable table = make_evidence(runs);
  EXPECT_NEAR(table.widening, 2.1608, 2e-4);
  ASSERT_EQ(table.runs.size(), 4U);
  EXPECT_EQ(table.runs.front().runs, 1);
}

// Two plans on 8 GPUs, measured 1.0 and 1.1, predicted 1.0 and 1.0: their errors are ln 1.1 apart. A plan on 16 GPUs is no
// choice.
TEST(EvidenceRows, PairsOfPlansAreThoseOfOneModelAndMachine) {
  const EvidenceTable table =
      make_evidence({compared("one", kind_of("megatron"), 1, 1), compared("one", kind_of("megatron"), 1, 1.1),
                     compared("one", kind_of("megatron"), 1, 2, 16)});
  ASSERT_EQ(table.plans.size(), 1U);
  EXPECT_EQ(table.plans.front().pairs, 1);
  EXPECT_NEAR(table.plans.front().apart.front(), std::log(1.1), 1e-4);
}

TEST(EvidenceRows, ShareInsideIsAFigureWithATolerance) {
  const auto judged = [](double predicted) {
    RunPrediction run = compared("one", kind_of("megatron"), predicted, 1);
    run.interval = {0.9, 1.1, {3, 1, "x"}, {3, 1, "x"}};
    return run;
  };
  // 0.945 to 1.155 holds 1, 1.08 to 1.32 does not.
  const RunReport report =
      make_run_report({judged(1.05), judged(1.2), compared("one", kind_of("x"), 1, 1)}, {parse_run_tolerance("inside=80%")});
  EXPECT_EQ(report.summary.errors.judged, 2);
  EXPECT_EQ(report.summary.errors.inside, 0.5);
  EXPECT_FALSE(report.ok());
  const auto rows = nlohmann::json::parse(to_json(report))["rows"];
  EXPECT_NEAR(rows[1]["predicted_p10_s"].get<double>(), 1.08, 1e-12);
  EXPECT_NEAR(rows[1]["predicted_p90_s"].get<double>(), 1.32, 1e-12);
  EXPECT_EQ(rows[1]["inside"], false);
  EXPECT_EQ(rows[0]["evidence"], nlohmann::json::parse(R"({"runs": 3, "sources": 1, "like": "x"})"));
  EXPECT_TRUE(rows[2]["predicted_p10_s"].is_null());
}

TEST(EvidenceRows, NoSourceJudgesItself) {
  const RunRow row = korthikanti_22b();
  RunRow elsewhere = row;
  elsewhere.source = "nobody before";
  std::vector<RunPrediction> runs = predict({row, elsewhere}, {});
  judge(runs, shipped_evidence());
  const RunPrediction &own = runs.front(), &other = runs.back();
  EXPECT_EQ(own.predicted_s, other.predicted_s);
  EXPECT_EQ(own.interval.evidence.sources, other.interval.evidence.sources - 1);
  EXPECT_EQ(own.interval.high, shipped_evidence().interval(own.kind, "korth22").high);
}

// The runs of a device's other sources do not show how well it would be known without any: two sources on an A100 off by 0.05,
// two on an H100 by 0.2, eight runs each. Of all four the 80 % quantile is above 0.05, of those elsewhere 0.2 or 0.05 alone.
TEST(EvidenceRows, ADeviceIsJudgedByOthersToo) {
  std::vector<RunPrediction> runs;
  for (const auto& [source, device, off] :
       {std::tuple("one", "A100-SXM", 0.05), {"two", "A100-SXM", 0.05}, {"three", "H100-SXM", 0.2}, {"four", "H100-SXM", 0.2}})
    for (int run = 0; run < 8; ++run) {
      Likeness kind = kind_of("megatron");
      kind.device = device;
      runs.push_back(compared(source, kind, 1, std::exp(off)));
    }
  EvidenceTable table = make_evidence(runs);
  table.widening = 1;
  judge(runs, table);
  // "one" by the other three: two of 0.2 and one of 0.05, all alike but for the device; elsewhere by two sources of 0.2, so that
  // the width is 0.2 (1 + 1/2) = 0.3. "four" elsewhere by two of 0.05: 0.075, and 0.2 lies outside.
  EXPECT_NEAR(std::log(runs.front().elsewhere.high), 0.3, 1e-9);
  EXPECT_EQ(runs.front().inside_elsewhere(), true);
  EXPECT_NEAR(std::log(runs.back().elsewhere.high), 0.075, 1e-9);
  EXPECT_EQ(runs.back().inside_elsewhere(), false);
  const auto rows = nlohmann::json::parse(to_json(make_run_report(runs, {})))["rows"];
  EXPECT_EQ(rows.front()["inside_elsewhere"], true);
  EXPECT_EQ(rows.front()["host_bound"], false);
  EXPECT_EQ(rows.back()["inside_elsewhere"], false);
}

TEST(EvidenceRows, LeftOutPredictionsStandInForOurs) {
  const std::string path = file_with("id,source,left_out_s\n22B,korth22,1.75\n");
  PredictionOptions options;
  options.left_out = read_left_out({path});
  EXPECT_EQ(predict({korthikanti_22b()}, options).front().predicted_s, 1.75);
  const auto message = [&](const std::string& text) -> std::string {
    test::write_file(path, text);
    return test::fault_of([&] { read_left_out({path}); });
  };
  EXPECT_EQ(message("id,source\n22B,korth22\n"),
            "error: " + path + ": no column 'left_out_s'; it is no table of rows left out, as a fit writes them");
  EXPECT_THAT(message("id,left_out_s\n22B,slow\n"),
              ::testing::HasSubstr(":2:5: error: 'slow' is not a number of seconds above 0"));
}

}  // namespace
}  // namespace panpipe::validation
