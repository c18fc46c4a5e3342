// Optimizers of matrices: operations, state and temporaries by closed forms, and what is a hidden matrix.
#include "costmodel/cost/matrix_optimizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costmodel/cost/priced_models.hpp"
#include "tests/fault.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

OptimizerRequest named(const std::string& name) {
  OptimizerRequest request;
  request.name = name;
  return request;
}

double muon_flops(double rows, double columns) {
  return matrix_flops(matrix_work(named("muon"), static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), 4));
}

// 5 x (2 m m n + 2 m m m + 2 m m n) with m = 1024, n = 4096: 5 x (2 x 8.590e9 + 2.147e9) = 9.664e10, either way round.
TEST(Muon, StepIsFiveQuinticIterations) {
  EXPECT_DOUBLE_EQ(muon_flops(1024, 4096), 5 * (4 * 1024.0 * 1024 * 4096 + 2 * 1024.0 * 1024 * 1024));
  EXPECT_DOUBLE_EQ(muon_flops(4096, 1024), muon_flops(1024, 4096));
  EXPECT_NEAR(muon_flops(1024, 4096), 9.664e10, 1e7);
  OptimizerRequest short_one = named("muon");
  short_one.newton_schulz_steps = 2;
  EXPECT_DOUBLE_EQ(matrix_flops(matrix_work(short_one, 1024, 4096, 4)), 0.4 * muon_flops(1024, 4096));
}

// Weights in fp32: the update 4, its copy and the next iterate 2 + 2 bytes of each of 1024 x 4096 elements, and two Gram matrices
// of 1024 x 1024 in 2 bytes: 33.55e6 + 4.19e6.
TEST(Muon, HoldsOneMomentumAndAFewCopiesOfOneMatrix) {
  const MatrixWork work = matrix_work(named("muon"), 4096, 1024, 4);
  EXPECT_DOUBLE_EQ(work.states, 1024.0 * 4096);
  EXPECT_DOUBLE_EQ(work.temporary, 8 * 1024.0 * 4096 + 4 * 1024.0 * 1024);
}

// Eight ranks hold 512 of 4096 rows: the Gram matrix is of the columns, 1024 x 1024. Products with the part take an eighth; the
// polynomial stays whole: 5 x (4 x 1024^2 x 512 + 2 x 1024^3). Cut by columns it is of the 4096 rows, which is more work than the
// whole matrix is for one rank: 5 x (4 x 4096^2 x 128 + 2 x 4096^3) = 7.3e11.
TEST(Muon, RanksThatHoldPartsShareTheProductsAndRepeatThePolynomial) {
  const auto part = [](bool by_rows) { return matrix_work(named("muon"), 4096, 1024, 4, 8, by_rows); };
  EXPECT_DOUBLE_EQ(matrix_flops(part(true)), 5 * (4 * 1024.0 * 1024 * 512 + 2 * 1024.0 * 1024 * 1024));
  EXPECT_DOUBLE_EQ(part(true).gram, 1024.0 * 1024);
  EXPECT_DOUBLE_EQ(matrix_flops(part(false)), 5 * (4 * 4096.0 * 4096 * 128 + 2 * 4096.0 * 4096 * 4096));
  EXPECT_GT(matrix_flops(part(false)), muon_flops(4096, 1024));
}

// Kimi K2 (config.json of moonshotai/Kimi-K2-Instruct): hidden 7168; queries by 1536 to 64 heads of 192, keys and values by 512
// to 64 x 256, output 64 x 128; 384 experts and a shared one of 2048 in 60 layers, one dense layer of 18432. A step of
// Megatron-Bridge's (26.02, GB300): 4096 x 4096 tokens at 5072 tokens/s and 1037 model TFLOP/s a GPU, 2.04e11 a token, 3.43e18 a
// step. Moonlight names 1 to 3 % (arXiv 2502.16982, section 2.3).
TEST(Muon, OverheadOfKimiK2IsThatOfItsReport) {
  const double attention =
      muon_flops(1536, 7168) + muon_flops(12288, 1536) + muon_flops(576, 7168) + muon_flops(16384, 512) + muon_flops(7168, 8192);
  const double expert = 3 * muon_flops(2048, 7168);
  const double step = 61 * attention + 60 * (385 * expert + muon_flops(384, 7168)) + 3 * muon_flops(18432, 7168);
  EXPECT_NEAR(step, 4.85e16, 0.01e16);
  const double model = 1037e12 / 5072 * 4096 * 4096;
  EXPECT_NEAR(step / model, 0.0141, 0.0001);
}

// SOAP keeps 2 m n + 2 m m + 2 n n (arXiv 2409.11321, section 6.3: the same with a gradient of m n): 6 m m for a square.
TEST(Soap, KeepsStatisticsAndBasesOfBothSides) {
  EXPECT_DOUBLE_EQ(matrix_work(named("soap"), 4096, 4096, 4).states, 6 * 4096.0 * 4096);
  EXPECT_DOUBLE_EQ(matrix_work(named("soap"), 1024, 4096, 4).states, 2 * 1024.0 * 4096 + 2 * (1024.0 * 1024 + 4096.0 * 4096));
}

// Per block of 1000 x 1000 (of 4000 x 2000: eight), in products of 2e9: statistics 2, rotations 6, and every tenth step two power
// iterations with a QR of 1 + 4/3 products each: 2 x 7/3 / 10.
TEST(Soap, StepIsAmortisedOverTheInterval) {
  OptimizerRequest request = named("soap");
  request.block = 1000;
  EXPECT_NEAR(matrix_flops(matrix_work(request, 4000, 2000, 4)), 8 * 2e9 * (8 + 14.0 / 30), 1e3);
  request.interval = 1;
  EXPECT_NEAR(matrix_flops(matrix_work(request, 4000, 2000, 4)), 8 * 2e9 * (8 + 14.0 / 3), 1e3);
}

// Blocks of at most 1024: 4096 rows are four of 1024, 11008 columns eleven of 1001. Two sides of state each.
TEST(Shampoo, CutsSidesIntoBlocks) {
  const double squares = 44 * (1024.0 * 1024 + 1001.0 * 1001);
  EXPECT_DOUBLE_EQ(matrix_work(named("shampoo"), 4096, 11008, 4).states, 2 * 4096.0 * 11008 + 2 * squares);
}

std::unique_ptr<Made> gpt(const std::string& optimizer, const std::string& parallel = "{pipeline: 1}") {
  return make(
      "panpipe: 1\ncluster: clusters/h100x8.yaml\n"
      "workload: {model: gpt, layers: 2, hidden: 1024, heads: 8, sequence: 512, vocabulary: 32000}\n"
      "batch: {micro: 1, microbatches: 2}\nprecision: bf16\nparallel: " +
      parallel + "\nframework: megatron-core\noptimizer: " + optimizer + "\n");
}

// A layer of GPT has matrices of 3 h h + h h + 4 h h + 4 h h; tables, the tied head, norms and biases are none.
TEST(HiddenMatrices, AreThoseOfTheLayersProducts) {
  const auto made = gpt("muon");
  std::int64_t matrices = 0, others = 0, tensors = 0;
  for (const UnitCost& unit : made->cost().units)
    for (const ParameterUse& use : unit.parameters) {
      (use.matrices.count > 0 ? matrices : others) += use.elements;
      tensors += use.matrices.count;
    }
  EXPECT_EQ(matrices, 2 * 12 * 1024 * 1024);
  EXPECT_EQ(tensors, 2 * 4);
  EXPECT_GT(others, 32000 * 1024);
  for (const UnitCost& unit : gpt("adamw")->cost().units)
    for (const ParameterUse& use : unit.parameters) EXPECT_EQ(use.matrices.count, 0);
}

// Of a matrix's elements one moment less: more_states is -1 for each. Two tensor-parallel ranks hold half of it each.
TEST(HiddenMatrices, AreHeldAsTheTensorRanksDivideThem) {
  for (const int tensor : {1, 2}) {
    const auto made = gpt("{name: muon, tensor_mode: duplicated}", fmt::format("{{pipeline: 1, tensor: {}}}", tensor));
    std::int64_t more = 0, whole = 0;
    for (const UnitCost& unit : made->cost().units)
      for (const ParameterUse& use : unit.parameters) {
        more += use.matrices.more_states;
        whole += use.matrices.count * use.matrices.elements;
      }
    EXPECT_EQ(more, -2 * 12 * 1024 * 1024 / tensor);
    EXPECT_EQ(whole, 2 * 12 * 1024 * 1024);
  }
}

TEST(MatrixSharding, FollowsZeroAndIsRefusedWhereItCannotStand) {
  const auto made = gpt("muon");
  EXPECT_EQ(matrix_sharding(made->scenario, 0), MatrixSharding::Replicated);
  EXPECT_EQ(matrix_sharding(made->scenario, 1), MatrixSharding::Layers);
  EXPECT_EQ(matrix_sharding(made->scenario, 3), MatrixSharding::Gathered);
  const auto stated = [](const std::string& sharding, int zero) {
    const auto other = gpt("{name: muon, sharding: " + sharding + "}");
    return test::fault_of([&] { (void)matrix_sharding(other->scenario, zero); });
  };
  EXPECT_EQ(stated("layers", 3), "");
  EXPECT_THAT(stated("layers", 0), HasSubstr("without ZeRO every replica holds the state of every matrix"));
  EXPECT_THAT(stated("replicated", 1), HasSubstr("ZeRO 1 divides the optimizer's state"));
  EXPECT_THAT(stated("gathered", 1), HasSubstr("with zero 1 whole gradients are there"));
}

}  // namespace
}  // namespace panpipe
