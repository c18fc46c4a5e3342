// The costs of a run, against published tables and by hand.
#include <gtest/gtest.h>

#include "costmodel/run_cost/run_cost.hpp"
#include "costmodel/run_cost/run_cost_text.hpp"

namespace panpipe {
namespace {

constexpr double kHour = 3600;

// A run of so many GPU hours on so many GPUs of one type, in steps of an hour.
RunCost run_of(double gpu_hours, double gpus, RunRequest request) {
  request.counted = RunRequest::Counted::Steps;
  request.amount = gpu_hours / gpus;
  const RunAnswer answer = run_cost(request, {{gpus}, gpus / 8}, {.time = Duration(kHour), .samples = 1});
  EXPECT_TRUE(answer.cost) << answer.fault.message;
  return answer.cost.value_or(RunCost());
}

RunRequest at_tdp(double watts_of_gpu, double pue, double carbon) {
  RunRequest request;
  request.power = RunRequest::PowerUse{{watts(watts_of_gpu)}, 1, Power(0), pue};
  request.carbon = carbon;
  return request;
}

// Llama (arXiv 2302.13971, table 15): GPU hours x 400 W x PUE 1.1, 0.385 kg of CO2 equivalent for a kWh.
// 65B: 1,022,362 h x 0.4 kW x 1.1 = 449.8 MWh (published: 449), x 0.385 = 173.2 t (173).
TEST(RunCost, EnergyAndCarbonOfLlamaAreThePublished) {
  const RunCost llama = run_of(1022362, 2, at_tdp(400, 1.1, 385));
  EXPECT_NEAR(*llama.energy_kwh / 1000, 449, 1);
  EXPECT_NEAR(*llama.carbon_kg / 1000, 173, 0.5);
}

// Llama 2 (model card): 70B 1,720,320 h and 291.42 t; 13B 368,640 h and 62.44 t; 7B 184,320 h and 31.22 t, at 400 W. The paper
// states "adjusted for power usage efficiency": 1,720,320 x 0.4 x 1.1 x 0.385 = 291,422 kg.
TEST(RunCost, CarbonOfLlama2IsThePublished) {
  EXPECT_NEAR(*run_of(1720320, 2048, at_tdp(400, 1.1, 385)).carbon_kg, 291420, 10);
  EXPECT_NEAR(*run_of(368640, 1024, at_tdp(400, 1.1, 385)).carbon_kg, 62440, 10);
  EXPECT_NEAR(*run_of(184320, 1024, at_tdp(400, 1.1, 385)).carbon_kg, 31220, 10);
}

// BLOOM (arXiv 2211.02001): 1,082,990 h x 400 W = 433,196 kWh, at 57 g/kWh 24.69 t, without the data centre's share.
TEST(RunCost, EnergyOfBloomIsThePublished) {
  const RunCost bloom = run_of(1082990, 2, at_tdp(400, 1, 57));
  EXPECT_NEAR(*bloom.energy_kwh, 433196, 0.5);
  EXPECT_NEAR(*bloom.carbon_kg / 1000, 24.69, 0.005);
}

// Llama 3.1 (model card): 405B took 30.84 M GPU hours of 700 W: 21.588 GWh; 8930 t would be 0.4136 kg a kWh.
TEST(RunCost, EnergyOfLlama31) {
  const RunCost llama = run_of(30.84e6, 16, at_tdp(700, 1, 413.65));
  EXPECT_NEAR(*llama.energy_kwh / 1e6, 21.588, 1e-6);
  EXPECT_NEAR(*llama.carbon_kg / 1000, 8930, 1);
}

// 1000 tokens in steps of 3 samples of 10 tokens: 33.3 steps, so 34, of 2 s on 16 GPUs: 68 s x 16 = 0.302 GPU hours; at 3 USD
// 0.907 USD. Nodes draw (8 x 100 W x 50 % + 200 W) x PUE 1.5 each: 2 x 600 x 1.5 = 1800 W, x 68 s = 0.034 kWh; 500 g a kWh: 17 g.
TEST(RunCost, ByHand) {
  RunRequest request = at_tdp(100, 1.5, 500);
  request.power->share = 0.5;
  request.power->node = watts(200);
  request.counted = RunRequest::Counted::Tokens;
  request.amount = 1000;
  request.prices = {3};
  request.currency = "USD";
  request.price_origin = "3.00 USD";
  const RunAnswer answer = run_cost(request, {{16}, 2}, {.time = Duration(2), .samples = 3, .tokens = 30});
  ASSERT_TRUE(answer.cost);
  EXPECT_EQ(answer.cost->steps, 34);
  EXPECT_EQ(answer.cost->time_s, 68);
  EXPECT_DOUBLE_EQ(answer.cost->gpu_hours, 68 * 16 / kHour);
  EXPECT_DOUBLE_EQ(*answer.cost->cost, 3 * 68 * 16 / kHour);
  EXPECT_DOUBLE_EQ(*answer.cost->energy_kwh, 1800 * 68 / 3.6e6);
  EXPECT_DOUBLE_EQ(*answer.cost->carbon_kg, 0.017);
  EXPECT_FALSE(answer.cost->goodput);
  EXPECT_EQ(run_lines(*answer.cost),
            "run  1000 tokens in 34 steps: 1.133 min on 16 GPUs, 0.302 GPU hours\n"
            "     0.91 USD at 3.00 USD a GPU hour\n"
            "     34 Wh (GPUs at 50 W, 200 W a node beside them, PUE 1.5), 1.7e-05 t of CO2 equivalent\n");
}

// Samples: 33 in steps of 3 are 11 steps, and no step more for what rounding leaves.
TEST(RunCost, AWholeNumberOfStepsIsNotRoundedUp) {
  RunRequest request;
  request.counted = RunRequest::Counted::Samples;
  request.amount = 33;
  EXPECT_EQ(run_cost(request, {{1}, 1}, {.time = Duration(1), .samples = 3}).cost->steps, 11);
  request.amount = 34;
  EXPECT_EQ(run_cost(request, {{1}, 1}, {.time = Duration(1), .samples = 3}).cost->steps, 12);
}

// Two types: 8 GPUs at 1 EUR and 300 W, 4 at 5 EUR and 700 W, an hour: 28 EUR, 2.4 + 2.8 = 5.2 kWh.
TEST(RunCost, EveryTypeHasItsPriceAndPower) {
  RunRequest request;
  request.counted = RunRequest::Counted::Steps;
  request.amount = 1;
  request.prices = {1, 5};
  request.power = RunRequest::PowerUse{{watts(300), watts(700)}, 1, Power(0), 1};
  const RunAnswer answer = run_cost(request, {{8, 4}, 2}, {.time = Duration(kHour), .samples = 1});
  ASSERT_TRUE(answer.cost);
  EXPECT_DOUBLE_EQ(*answer.cost->cost, 28);
  EXPECT_DOUBLE_EQ(*answer.cost->energy_kwh, 5.2);
}

RunRequest failing(RunRequest::FailingPart part, double mtbf_h) {
  RunRequest request;
  request.counted = RunRequest::Counted::Steps;
  request.amount = 10000;
  request.checkpoint = RunRequest::Checkpoint{};
  request.checkpoint->bandwidth = Bandwidth(1e9);
  request.failures = RunRequest::Failures{Duration(mtbf_h * kHour), part, Duration(600)};
  return request;
}

// 60 GB over 1 GB/s are 60 s. 16 GPUs that fail every 1600 h each: one every 100 h; as 2 nodes of that MTBF every 800 h.
TEST(RunCost, CheckpointsAndFailuresLengthenTheRun) {
  const RunStep step{.time = Duration(10), .samples = 1, .checkpoint_bytes = 60e9};
  const RunCost by_gpu = *run_cost(failing(RunRequest::FailingPart::Gpu, 1600), {{16}, 2}, step).cost;
  EXPECT_DOUBLE_EQ(*by_gpu.checkpoint_s, 60);
  EXPECT_DOUBLE_EQ(*by_gpu.mtbf_s, 100 * kHour);
  EXPECT_DOUBLE_EQ(*by_gpu.goodput, 100000 / by_gpu.time_s);
  EXPECT_DOUBLE_EQ(by_gpu.gpu_hours, 16 * by_gpu.time_s / kHour);
  // sqrt(2 x 60 x 360,000) = 6573 s: about 60 / 6573 + 3287 / 360,000 + 600 / 360,000 = 2.0 % are lost.
  EXPECT_NEAR(*by_gpu.goodput, 0.980, 0.001);
  const RunCost by_node = *run_cost(failing(RunRequest::FailingPart::Node, 1600), {{16}, 2}, step).cost;
  EXPECT_DOUBLE_EQ(*by_node.mtbf_s, 800 * kHour);
  EXPECT_GT(*by_node.goodput, *by_gpu.goodput);
  RunRequest stated = failing(RunRequest::FailingPart::Gpu, 1600);
  stated.checkpoint->size = Bytes(120'000'000'000);
  EXPECT_DOUBLE_EQ(*run_cost(stated, {{16}, 2}, step).cost->checkpoint_s, 120);
}

TEST(RunCost, FaultsNameTheirKey) {
  RunRequest tokens;
  tokens.amount = 1e9;
  const RunAnswer none = run_cost(tokens, {{1}, 1}, {.time = Duration(1), .samples = 4});
  EXPECT_FALSE(none.cost);
  EXPECT_EQ(none.fault.key, "tokens");
  EXPECT_EQ(none.fault.message, "this model reads no tokens");

  RunRequest close = failing(RunRequest::FailingPart::Gpu, 1600);
  close.checkpoint->interval = Duration(5);
  const RunAnswer too_close = run_cost(close, {{16}, 2}, {.time = Duration(10), .samples = 1, .checkpoint_bytes = 60e9});
  EXPECT_EQ(too_close.fault.key, "checkpoint.interval");
  EXPECT_EQ(too_close.fault.message, "checkpoints every 5 s are closer than steps of 10 s");

  const RunAnswer unknown =
      run_cost(failing(RunRequest::FailingPart::Gpu, 1600), {{16}, 2}, {.time = Duration(10), .samples = 1});
  EXPECT_EQ(unknown.fault.key, "checkpoint.bandwidth");

  const RunAnswer stuck = run_cost(failing(RunRequest::FailingPart::Gpu, 0.1), {{16}, 2},
                                   {.time = Duration(10), .samples = 1, .checkpoint_bytes = 60e9});
  EXPECT_EQ(stuck.fault.key, "failures");
  EXPECT_EQ(stuck.fault.message,
            "the run does not get on: something fails every 22.5 s, a checkpoint of 1 min is written every 22.5 s, and a restart "
            "takes 10 min");
}

}  // namespace
}  // namespace panpipe
