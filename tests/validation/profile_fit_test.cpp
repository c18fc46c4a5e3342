// Numbers that made a table of operators and a table of messages are found again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "costmodel/profile/calibration.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"
#include "validation/fit/profile_fit.hpp"

namespace panpipe::validation {
namespace {

using ::testing::HasSubstr;

std::string written(const std::string& name, const std::string& text) { return test::scratch().write(name, text); }

// 100 GFLOP/s, 10 GB/s: an operator of w operations takes w / (e 100e9), one of b bytes b / (e 10e9).
DeviceType device() {
  DeviceType type;
  type.name = "made-up";
  type.kind = "cpu";
  type.peak[Precision::Fp32] = ComputeRate(100e9);
  type.memory_bandwidth = Bandwidth(10e9);
  return type;
}

constexpr double kWait = 5;  // us, what waiting for any operator takes

// Sizes 64 to 512. Products: n x n by n x n, 2 n^3 operations forward, twice that backward, at 60 GFLOP/s. Attention: 4 heads of
// 64, n tokens: 2 (4 n 64) n operations at 30 GFLOP/s. A sum reads and writes 3 n^2 floats at 7 GB/s. One product is hurt
// tenfold.
std::string table() {
  std::string text = "unit,module,operator,shapes,forward_us,backward_us,saved_bytes\n";
  for (const double n : {64.0, 128.0, 256.0, 512.0}) {
    const double product = 2 * n * n * n / 60e9 * 1e6, attention = 2 * 4 * n * 64 * n / 30e9 * 1e6,
                 sum = 3 * n * n * 4 / 7e9 * 1e6;
    text += fmt::format("u,m,aten::linear,{0}x{0} {0}x{0} {0} -> {0}x{0},{1},{2},0\n", n, product + kWait, 2 * product + kWait);
    text += fmt::format("u,m,aten::scaled_dot_product_attention,1x4x{0}x64 1x4x{0}x64 1x4x{0}x64 -> 1x4x{0}x64,{1},1,0\n", n,
                        attention + kWait);
    text += fmt::format("u,m,aten::add.Tensor,{0}x{0} {0}x{0} -> {0}x{0},{1},1,0\n", n, sum + kWait);
    text += fmt::format("u,m,aten::view,{0}x{0} -> {0}x{0},{1},0,0\n", n, kWait);
  }
  return text + fmt::format("u,m,aten::mm,64x64 64x64 -> 64x64,{},0,0\n", 10 * 2 * 64 * 64 * 64 / 60e9 * 1e6 + kWait);
}

// 40 us and 2 GB/s.
Profile links() {
  Profile profile;
  profile.launch = micros(3);
  ProfiledTransfers transfers{"gloo", 0, 1, {}};
  for (const std::int64_t bytes : {0, 1024, 65536, 1048576, 16777216})
    transfers.table.points.emplace_back(Bytes(bytes), Duration(40e-6 + static_cast<double>(bytes) / 2e9));
  profile.transfers.push_back(transfers);
  return profile;
}

double number(const ProfileFit& fit, const std::string& key) {
  for (const ReachedNumber& n : fit.numbers)
    if (n.key == key) return n.value;
  ADD_FAILURE() << "no " << key;
  return 0;
}

TEST(ProfileFit, FindsTheNumbersThatMadeTheTables) {
  const auto operators = read_operators(written("panpipe_ops.csv", table()));
  ASSERT_EQ(operators.size(), 17U);
  EXPECT_EQ(operators[0].kind, OperatorKind::Product);
  EXPECT_EQ(operators[0].work, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(operators[1].work, 2.0 * 4 * 64 * 64 * 64);
  EXPECT_EQ(operators[2].elements, 3.0 * 64 * 64);
  EXPECT_EQ(operators[3].kind, OperatorKind::View);
  const ProfileFit fit = fit_profile(operators, {links()}, device(), Precision::Fp32);
  EXPECT_NEAR(number(fit, "gemm_efficiency"), 0.6, 1e-6);
  EXPECT_NEAR(number(fit, "attention_efficiency"), 0.3, 1e-6);
  EXPECT_NEAR(number(fit, "memory_efficiency"), 0.7, 1e-6);
  EXPECT_NEAR(number(fit, "launch"), 3e-6, 1e-12);
  EXPECT_NEAR(number(fit, "transfer_latency"), 40e-6, 1e-9);
  ASSERT_EQ(fit.links.size(), 1U);
  EXPECT_NEAR(fit.links[0].bytes_per_s, 2e9, 1);
  EXPECT_LT(fit.links[0].worst, 1e-9);
  EXPECT_LT(fit.mean_error, 0.05);  // the hurt product alone
}

TEST(ProfileFit, WithoutAProfileTheLaunchIsWhatMovesNothing) {
  const auto operators = read_operators(written("panpipe_ops.csv", table()));
  EXPECT_NEAR(number(fit_profile(operators, {}, device(), Precision::Fp32), "launch"), kWait * 1e-6, 1e-12);
}

TEST(ProfileFit, ItsFileIsACalibrationThatLoads) {
  const auto operators = read_operators(written("panpipe_ops.csv", table()));
  const ProfileFit fit = fit_profile(operators, {links()}, device(), Precision::Fp32);
  const std::string text = to_yaml(fit, "mine", "made-up", "panpipe fit ops.csv --device made-up.yaml -o mine.yaml");
  const Calibration loaded = load_calibration(written("panpipe_profile_fit.yaml", text), "");
  EXPECT_NEAR(loaded.gemm_efficiency, 0.6, 1e-4);
  EXPECT_NEAR(loaded.memory_efficiency, 0.7, 1e-4);
  EXPECT_NEAR(loaded.launch.base(), 3e-6, 1e-9);
  EXPECT_EQ(loaded.devices, std::vector<std::string>{"made-up"});
  EXPECT_THAT(text, HasSubstr("  - {transport: gloo, from: 0, to: 1, latency: 40 us, bandwidth: 2 GB/s, worst: 0.0 %}\n"));
}

TEST(ProfileFit, ReportsWhatItCannotUse) {
  EXPECT_EQ(test::fault_of([] { fit_profile({}, {}, device(), Precision::Fp32); }),
            "error: these profiles hold no operators, launches or links that a calibration could be made of; panpipe profile "
            "SCENARIO -o "
            "PROFILE --operators TABLE.csv measures them");
  EXPECT_EQ(test::fault_of([] { fit_profile({}, {links()}, device(), Precision::Bf16); }),
            "error: the device made-up has no compute rate for bf16");
  const std::string path =
      written("panpipe_ops_bad.csv", "unit,operator,shapes,forward_us,backward_us\nu,aten::mm,2xa -> 2x2,1,1\n");
  EXPECT_THAT(test::fault_of([&] { read_operators(path); }),
              HasSubstr("'2xa' is no shape; shapes are written 2x16x32, or scalar"));
}

}  // namespace
}  // namespace panpipe::validation
