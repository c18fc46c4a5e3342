// The fit finds the numbers that made its rows, and says where rows are silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "costmodel/base/error.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe {
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

TEST(Fit, SaysWhatItsRowsDoNotShow) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  FitOptions options;
  options.only = {"gemm_efficiency", "network_efficiency"};  // one node: nothing crosses a network
  const Fit result = fit(rows_measured_with(Calibration{}), Calibration{}, options);
  ASSERT_EQ(result.parameters.size(), 2U);
  EXPECT_TRUE(result.parameters[0].determined);
  EXPECT_FALSE(result.parameters[1].determined);
  EXPECT_NEAR(result.parameters[1].value, Calibration{}.network_efficiency, 1e-3);
}

TEST(Fit, ItsFileIsACalibrationThatLoads) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  Calibration truth;
  truth.gemm_efficiency = 0.7;
  FitOptions options;
  options.only = {"gemm_efficiency", "launch"};
  const Fit result = fit(rows_measured_with(truth), Calibration{}, options);
  const std::string path = (std::filesystem::temp_directory_path() / "panpipe_fit_test.yaml").string();
  std::ofstream(path, std::ios::binary) << to_yaml(result, "mine", {"A100-80G-SXM"});
  const Calibration loaded = load_calibration(path, "");
  EXPECT_NEAR(loaded.gemm_efficiency, result.calibration.gemm_efficiency, 1e-3);
  EXPECT_EQ(loaded.devices, std::vector<std::string>{"A100-80G-SXM"});
  EXPECT_THAT(loaded.sources.at("gemm_efficiency"), HasSubstr("18 measured runs"));
}

TEST(Fit, RefusesWhatCannotBeFitted) {
  if (!fit_available()) GTEST_SKIP() << "built without Ceres";
  std::vector<RunRow> few = made_rows();
  few.resize(2);
  const FitRows prepared = prepare_rows(few, {"A100-80G-SXM"});
  EXPECT_THROW(fit(prepared.rows, Calibration{}, {}), InputError);
  FitOptions options;
  options.only = {"gemm"};
  try {
    fit(prepared.rows, Calibration{}, options);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--only gemm: nothing of that name is fitted; there are gemm_efficiency, "));
  }
}

TEST(Fit, RowsOfOtherDevicesAreNotUsed) { EXPECT_TRUE(prepare_rows(made_rows(), {"H100-SXM"}).rows.empty()); }

TEST(FitParameters, AreAtMostADozenWithinTheirRanges) {
  EXPECT_LE(fit_parameters().size(), 12U);
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
}  // namespace panpipe
