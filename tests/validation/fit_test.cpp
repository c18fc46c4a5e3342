// The fit finds the numbers that made its rows, and reports which numbers its rows do not determine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "validation/fit/fit.hpp"
#include "validation/runs/run_prediction.hpp"

namespace panpipe::validation {
namespace {

using ::testing::HasSubstr;

// Rows of three sizes of GPT on one or eight A100, whose step times are the estimate's own with other numbers.
std::vector<RunRow> made_rows() {
  std::vector<RunRow> rows;
  for (const int hidden : {1024, 2048, 4096})
    for (const int micro : {1, 4})
      for (const int tp : {1, 2, 8}) {
        RunRow row;
        row.id = std::to_string(hidden) + "-" + std::to_string(micro) + "-" + std::to_string(tp);
        row.source = hidden == 2048 ? "other" : "one";
        row.framework = "megatron";
        row.gpu = "A100-80G-SXM";
        row.gpus = row.tp = tp;
        row.pp = row.dp = 1;
        row.layers = 2;
        row.hidden = hidden;
        row.heads = 16;
        row.seq = 1024;
        row.global_batch = row.micro_batch = micro;
        row.recompute = "none";
        row.precision = "fp16-mixed";
        row.schedule = "none";
        row.step_s = 1;
        rows.push_back(row);
      }
  return rows;
}

std::vector<FitRow> rows_measured_with(const Calibration& truth) {
  std::vector<RunRow> rows = made_rows();
  for (RunRow& row : rows) row.step_s = FitRow(row).predicted_s(truth);
  return std::move(prepare_rows(rows, {"A100-80G-SXM"}).rows);
}

TEST(Fit, FindsTheNumbersThatMadeTheRows) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration truth;
  truth.gemm_efficiency = 0.7;
  truth.launch = micros(20);
  const std::vector<FitRow> rows = rows_measured_with(truth);
  FitOptions options;
  options.only = {"gemm_efficiency", "launch"};
  const Fit result = fit(rows, Calibration{}, options);
  // The weak pull towards the start (0.85) leaves a few per cent.
  EXPECT_NEAR(result.calibration.gemm_efficiency, 0.7, 0.03);
  EXPECT_NEAR(result.calibration.launch.base(), 20e-6, 1e-6);
  EXPECT_LT(result.after.mean, 0.01);
  EXPECT_GT(result.before.mean, 0.05);
  EXPECT_LT(result.folds.mean, 0.02);
  EXPECT_LT(result.without_own.at("other").mean, 0.03);
}

// A cluster that takes 19 % longer than its calibration, of which one number may move, and that is pulled to its start by a small
// stated uncertainty: the factor comes first. Products are most of these steps.
TEST(Fit, AClustersFactorComesBeforeItsNumbers) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration start;
  start.gemm_efficiency = 0.8;
  std::vector<RunRow> rows;
  for (RunRow& row : made_rows()) {
    if (row.hidden < 4096 || *row.tp > 1) continue;
    row.step_s = 1.19 * FitRow(row).predicted_s(start);
    rows.push_back(row);
  }
  FitOptions options;
  options.only = {"gemm_efficiency"};
  options.spread["gemm_efficiency"] = 0.002;
  const Fit stuck = fit(prepare_rows(rows, {"A100-80G-SXM"}).rows, start, options);
  EXPECT_LT(stuck.after.bias, -0.14);
  options.cluster_factor = true;
  const Fit moved = fit(prepare_rows(rows, {"A100-80G-SXM"}).rows, start, options);
  EXPECT_NEAR(moved.before.bias, 1 / 1.19 - 1, 1e-3);
  EXPECT_NEAR(moved.after.bias, 0, 0.03);  // the optimizer has a part in the two steps that products have not
  EXPECT_GT(moved.cluster_factor, 1.15);
  EXPECT_NEAR(moved.calibration.gemm_efficiency, 0.8 / moved.cluster_factor, 0.005);
  EXPECT_EQ(moved.parameters.front().start, 0.8);
}

// The rate of earlier software, which no row is of, follows the other's.
TEST(Fit, ASlowerCardIsSlowerWithEarlierSoftwareToo) {
  Calibration card;
  card.gemm_efficiency = 0.8, card.earlier_gemm_efficiency = 0.7;
  fit_parameters().front().set(card, 0.4);
  EXPECT_NEAR(card.earlier_gemm_efficiency, 0.35, 1e-12);
}

TEST(Fit, ReportsWhatItsRowsDoNotShow) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  FitOptions options;
  options.only = {"gemm_efficiency", "network_efficiency"};  // one node: nothing crosses a network
  const Fit result = fit(rows_measured_with(Calibration{}), Calibration{}, options);
  ASSERT_EQ(result.parameters.size(), 2U);
  EXPECT_TRUE(result.parameters[0].determined);
  EXPECT_FALSE(result.parameters[1].determined);
  EXPECT_NEAR(result.parameters[1].value, Calibration{}.network_efficiency, 1e-3);
}

std::string written(const std::string& text) { return test::scratch().write("fit.yaml", text); }

FitRecord record() {
  FitRecord r;
  r.name = "mine";
  r.command = "panpipe fit rows.csv --device A100-80G-SXM -o mine.yaml";
  r.devices = {"A100-80G-SXM"};
  r.files = {{"rows.csv", "0123456789abcdef0123"}};
  r.left_out = {"odd: --without odd"};
  return r;
}

TEST(Fit, ItsFileLoadsWithTheValuesThatItWasMeasuredWith) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration truth;
  truth.gemm_efficiency = 0.7;
  FitOptions options;
  options.only = {"gemm_efficiency", "launch"};
  const Fit result = fit(rows_measured_with(truth), Calibration{}, options);
  const std::string text = to_yaml(result, record());
  const Calibration loaded = load_calibration(written(text), "");
  EXPECT_DOUBLE_EQ(loaded.gemm_efficiency, result.calibration.gemm_efficiency);
  EXPECT_DOUBLE_EQ(loaded.launch.base(), result.calibration.launch.base());
  EXPECT_EQ(loaded.devices, std::vector<std::string>{"A100-80G-SXM"});
  EXPECT_THAT(loaded.sources.at("gemm_efficiency"), HasSubstr("18 measured runs"));
  for (const char* said :
       {"range: [0.5, 1.1]", "start: 0.85", "  command: \"panpipe fit rows.csv --device A100-80G-SXM -o mine.yaml\"",
        "  state: converged", "  - {name: \"rows.csv\", sha256: 0123456789abcdef}",
        "  - {name: megatron, rows: 18, sha256: ", "  cross_validated: {rows: 18,", "  without_own_source:\n    one: {rows: 12,",
        "    other: [\n      2048-1-1, 2048-1-2,", "  - \"odd: --without odd\""})
    EXPECT_THAT(text, HasSubstr(said));
  // The file is a start of its own: its spreads hold as it states them.
  const auto spreads = stated_spreads(written(text));
  ASSERT_EQ(spreads.size(), 2U);
  EXPECT_NEAR(spreads.at("launch"), result.parameters[1].uncertainty / result.parameters[1].value, 1e-3);
}

TEST(Fit, TwoFitsAreTheSameText) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration truth;
  truth.elementwise_scale = 1.2;
  const std::vector<FitRow> rows = rows_measured_with(truth);
  EXPECT_EQ(to_yaml(fit(rows, Calibration{}, {}), record()), to_yaml(fit(rows, Calibration{}, {}), record()));
}

// Rows of one source are a third slower than anything explains: without them the others show that.
TEST(Fit, AnOverfitIsSeen) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  std::vector<RunRow> rows = made_rows();
  for (RunRow& row : rows) row.step_s = FitRow(row).predicted_s(Calibration{}) * (row.source == "other" ? 1.35 : 1);
  FitOptions options;
  options.only = {"gemm_efficiency", "launch", "elementwise_scale", "score_bytes", "step"};
  options.robust_scale = 1;  // squares: every row pulls
  const Fit result = fit(prepare_rows(rows, {"A100-80G-SXM"}).rows, Calibration{}, options);
  EXPECT_GT(result.without_own.at("one").mean, 1.5 * result.by_source.at("one").mean);
  // The table of left-out predictions has every row, as the errors by source were made from.
  ASSERT_EQ(result.left_out_s.size(), result.row_ids.size());
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < result.row_ids.size(); ++i) {
    if (result.row_sources[i] != "one") continue;
    sum += std::abs(result.left_out_s[i] / result.measured_s[i] - 1);
    ++count;
  }
  EXPECT_NEAR(sum / count, result.without_own.at("one").mean, 1e-12);
  EXPECT_THAT(left_out_csv(result), HasSubstr(fmt::format("id,source,left_out_s\n{},{},{:.9g}\n", result.row_ids[0],
                                                          result.row_sources[0], result.left_out_s[0])));
  ASSERT_FALSE(result.overfits.empty());
  EXPECT_THAT(to_yaml(result, record()), HasSubstr("  overfitted:\n"));
  EXPECT_THAT(to_table(result), HasSubstr("overfitted: one: "));
}

TEST(Fit, StoppedItKeepsTheBestUntilThen) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration truth;
  truth.gemm_efficiency = 0.7;
  const std::vector<FitRow> rows = rows_measured_with(truth);
  bool stop = false;
  FitOptions options;
  options.only = {"gemm_efficiency", "launch"};
  options.stopped = [&] { return stop; };
  int seen = 0;
  options.progress = [&](const FitProgress&) { stop = ++seen == 2; };
  const Fit result = fit(rows, Calibration{}, options);
  EXPECT_TRUE(result.interrupted);
  EXPECT_LT(result.after.mean, result.before.mean);
  EXPECT_EQ(result.folds.rows, 0);
  const std::string text = to_yaml(result, record());
  EXPECT_THAT(text, HasSubstr("  state: interrupted, the best until then\n"));
  EXPECT_DOUBLE_EQ(load_calibration(written(text), "").gemm_efficiency, result.calibration.gemm_efficiency);
  stop = true;
  EXPECT_THROW(fit(rows, Calibration{}, options), NoAnswer);
}

// The fit's own prices equal the predictions of `panpipe validate`.
TEST(Fit, ItsPredictionsAreThoseOfTheEstimate) {
  std::vector<RunRow> rows;
  std::map<std::string, int> taken;
  for (const RunRow& row : read_runs("../validation/published/runs.csv"))
    if (row.gpu.rfind("A100", 0) == 0 && row.step_s && row.layers && taken[row.framework + row.schedule]++ < 1 &&
        row.schedule.rfind("zb-", 0) != 0)
      rows.push_back(row);
  ASSERT_GE(rows.size(), 6U);
  Calibration other;
  other.name = "other";
  other.launch = micros(12);
  other.network_efficiency = 0.5;
  other.stage_jitter = 0.03;
  const std::string path = written(
      "panpipe: 1\nkind: calibration\nname: other\nlaunch: {value: 12 us, source: test}\n"
      "network_efficiency: {value: 0.5, source: test}\nstage_jitter: {value: 0.03, source: test}\n");
  PredictionOptions options;
  options.calibrations = {path};
  for (const RunPrediction& predicted : predict(rows, options)) {
    if (!predicted.predicted()) continue;
    EXPECT_NEAR(FitRow(predicted.row).predicted_s(other), predicted.predicted_s, 1e-9 * predicted.predicted_s)
        << predicted.row.id;
  }
}

TEST(Fit, RefusesWhatCannotBeFitted) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  std::vector<RunRow> few = made_rows();
  few.resize(2);
  const FitRows prepared = prepare_rows(few, {"A100-80G-SXM"});
  EXPECT_THROW(fit(prepared.rows, Calibration{}, {}), InputError);
  FitOptions options;
  options.only = {"gemm"};
  EXPECT_THAT(test::fault_of([&] { fit(prepared.rows, Calibration{}, options); }),
              HasSubstr("--only: error: there is no 'gemm', did you mean 'gemm_efficiency'?"));
}

TEST(Fit, RowsOfOtherDevicesAreNotUsed) { EXPECT_TRUE(prepare_rows(made_rows(), {"H100-SXM"}).rows.empty()); }

TEST(FitParameters, AreAtMostADozenWithinTheirRanges) {
  EXPECT_LE(std::count_if(fit_parameters().begin(), fit_parameters().end(), [](const auto& p) { return !p.if_named; }), 12);
  for (const FitParameter& p : fit_parameters()) {
    Calibration c;
    const double start = p.get(c);
    EXPECT_LE(p.low, start) << p.key;
    EXPECT_GE(p.high, start) << p.key;
    p.set(c, p.low);
    EXPECT_NEAR(p.get(c), p.low, 1e-12 * std::abs(p.low)) << p.key;
  }
}

}  // namespace
}  // namespace panpipe::validation
