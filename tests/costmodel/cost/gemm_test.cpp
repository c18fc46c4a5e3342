// Device time of matrix products: waves of tiles, filling, sizes, software.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "costmodel/cost/compute.hpp"
#include "tests/costmodel/cost/priced_models.hpp"

namespace panpipe {
namespace {

constexpr double kPeak = 312e12, kBandwidth = 2039e9;  // A100-80G SXM data sheet

TEST(Gemm, TakesTheLongerOfComputingAndMoving) {
  DeviceRates rates;
  rates.gemm = ComputeRate(100e12);
  rates.memory = Bandwidth(1e12);
  rates.element = 2;
  // Large: 2 x 4096^3 FLOP / 100 TFLOP/s = 1.374 ms; its 3 x 4096^2 x 2 bytes take 0.1 ms.
  EXPECT_NEAR(gemm_cost({1, 4096, 4096, 4096}, rates).total.base(), 2 * std::pow(4096.0, 3) / 100e12, 1e-15);
  // Thin: k = 1. 2 x 4096^2 FLOP take 0.3 us; (4096 + 4096 + 4096^2) x 2 bytes take 33.6 us.
  EXPECT_NEAR(gemm_cost({1, 4096, 4096, 1}, rates).total.base(), 2.0 * (2 * 4096 + 4096.0 * 4096) / 1e12, 1e-15);
  EXPECT_DOUBLE_EQ(gemm_cost({8, 128, 128, 64}, rates).work.base(), 8 * 2.0 * 128 * 128 * 64);
}

// 108 processors. m = 1024, n = k = 5120 in tiles of 256 x 128: 160 blocks, 2 waves, 1.35 times the smooth time. In tiles of
// 128 x 128: 320 blocks are 2.96 waves, so 3 are run, at 0.92 of the rate: 1.10 times. Large tiles with k in two parts: 320
// blocks, 3 x 108 / 320 = 1.0125, and the partial sums, 8 bytes x 2 m n at 10 TB/s against 2 m n k at 250 TFLOP/s: 0.0390625. The
// least.
TEST(Gemm, WholeWavesOfTilesAreRun) {
  DeviceRates rates;
  rates.gemm = ComputeRate(250e12);
  rates.memory = Bandwidth(1e13);
  rates.multiprocessors = 108;
  const auto time = [&](double felt) {
    rates.wave_quantisation = felt;
    return gemm_cost({1, 1024, 5120, 5120}, rates).compute.base();
  };
  const double smooth = 2 * 1024.0 * 5120 * 5120 / 250e12;
  EXPECT_NEAR(time(0), smooth, 1e-15);
  EXPECT_NEAR(time(1), smooth * (3 * 108 / 320.0 + 0.0390625), 1e-12);
  EXPECT_NEAR(time(0.5), (time(0) + time(1)) / 2, 1e-12);
}

// 96 elements to fill: as long as they take to compute. k = 4096: 1 + 96 / 4096 times; k = 64, where the traffic is the limit:
// in addition, and the traffic itself as before.
TEST(Gemm, FillingTheStagesCostsElementsOfK) {
  DeviceRates rates;
  rates.gemm = ComputeRate(100e12);
  rates.memory = Bandwidth(1e12);
  rates.gemm_fill = 96;
  EXPECT_NEAR(gemm_cost({1, 4096, 4096, 4096}, rates).total.base(), 2 * std::pow(4096.0, 3) / 100e12 * (1 + 96 / 4096.0), 1e-12);
  // 2 x (2 x 4096 x 64 + 4096^2) bytes at 1 TB/s: 34.6 us; 2 x 4096^2 x 64 FLOP would be 21.5 us, 2 x 4096^2 x 96 are 32.2 us.
  EXPECT_NEAR(gemm_cost({1, 4096, 4096, 64}, rates).total.base(),
              2.0 * (2 * 4096 * 64 + 4096.0 * 4096) / 1e12 + 2 * 4096.0 * 4096 * 96 / 100e12, 1e-12);
  EXPECT_DOUBLE_EQ(gemm_cost({1, 4096, 4096, 64}, rates).work.base(), 2.0 * 4096 * 4096 * 64);
  // k = 1: 33.6 us of traffic and the same 32.2 us. Not 97 times the traffic.
  EXPECT_NEAR(gemm_cost({1, 4096, 4096, 1}, rates).total.base(),
              2.0 * (2 * 4096 + 4096.0 * 4096) / 1e12 + 2 * 4096.0 * 4096 * 96 / 100e12, 1e-12);
}

// A product that is larger in one of its sizes is never faster: rows, columns and inner dimension from 1 to 8192, the numbers of
// the shipped A100.
TEST(Gemm, LargerIsNeverFaster) {
  const auto made = make_gpt({});
  const DeviceRates rates = device_rates(made->scenario.cluster.types.front(), made->model->calibration(0), made->scenario);
  ASSERT_GT(rates.gemm_fill, 0);
  ASSERT_GT(rates.wave_quantisation, 0);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= 8192; size += std::max<std::int64_t>(1, size / 5)) sizes.push_back(size);
  const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) { return gemm_cost({1, m, n, k}, rates).total.base(); };
  for (const std::int64_t a : sizes)
    for (const std::int64_t b : sizes)
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
        const std::int64_t c = sizes[i], larger = sizes[i + 1];
        constexpr double kRounding = 1 + 1e-12;
        ASSERT_LE(time(c, a, b), time(larger, a, b) * kRounding) << c << " -> " << larger << " rows, " << a << " x " << b;
        ASSERT_LE(time(a, c, b), time(a, larger, b) * kRounding) << c << " -> " << larger << " columns, " << a << " x " << b;
        ASSERT_LE(time(a, b, c), time(a, b, larger) * kRounding) << c << " -> " << larger << " inner, " << a << " x " << b;
      }
}

// Up to software of 2024 an H100 has its earlier rate, in bf16 and, by the same share, in FP8; an A100 has one rate for all
// years.
TEST(Gemm, TheRateIsThatOfTheSoftware) {
  const auto rates_of = [](const std::string& cluster, const std::string& precision, int year) {
    GptCase c;
    c.cluster = cluster;
    c.precision = precision;
    c.framework = fmt::format("{{name: megatron-core, software: {}}}", year);
    const auto made = make_gpt(c);
    return device_rates(made->scenario.cluster.types.front(), made->model->calibration(0), made->scenario);
  };
  const Calibration h100 = load_calibration("h100-sxm", "");
  ASSERT_GT(h100.gemm_efficiency, h100.earlier_gemm_efficiency);
  for (const int year : {0, 2025, 2026})
    EXPECT_DOUBLE_EQ(rates_of("h100x8", "bf16", year).gemm.base(), 989e12 * h100.gemm_efficiency);
  for (const int year : {2023, 2024}) {
    EXPECT_DOUBLE_EQ(rates_of("h100x8", "bf16", year).gemm.base(), 989e12 * h100.earlier_gemm_efficiency);
    EXPECT_DOUBLE_EQ(rates_of("h100x8", "fp8", year).narrow.gemm.base(), 1979e12 * kFp8Share * h100.earlier_gemm_efficiency);
  }
  EXPECT_DOUBLE_EQ(rates_of("dgx-a100-80g", "bf16", 2022).gemm.base(), rates_of("dgx-a100-80g", "bf16", 0).gemm.base());
}

TEST(Gemm, ManyWavesLoseLittle) {
  DeviceRates rates;
  rates.gemm = ComputeRate(250e12);
  rates.memory = Bandwidth(1e13);
  rates.multiprocessors = 108;
  rates.wave_quantisation = 1;
  for (const std::int64_t n : {8192, 16384, 32768}) {
    const double smooth = 2.0 * std::pow(static_cast<double>(n), 3) / 250e12,
                 time = gemm_cost({1, n, n, n}, rates).compute.base();
    EXPECT_GE(time, smooth);
    EXPECT_LE(time, 1.06 * smooth) << n;
  }
}

}  // namespace
}  // namespace panpipe
