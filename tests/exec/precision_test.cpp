// The arithmetic of a run: TF32 where it is asked for, autocast's casts once per step, norms of 2-byte gradients in fp32.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costmodel/workload/operator_table.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/float32_products.hpp"
#include "exec/engine/stage/weight_copies.hpp"
#include "exec/engine/training/gradients.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

// Of cuBLAS and cuDNN, as a run left them.
std::pair<bool, bool> tf32_after(const std::string& precision) {
  const Folder folder;
  EXPECT_EQ(error_of_step(folder, small_gpt(1, 1, 1, "precision: " + precision + "\n")), "");
  return {at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()};
}

TEST(Precision, Tf32IsForProductsAndConvolutionsWhereAskedForAlone) {
  at::globalContext().setAllowTF32CuDNN(true);  // LibTorch's default, also under fp32
  EXPECT_EQ(tf32_after("fp32"), std::pair(false, false));
  EXPECT_EQ(tf32_after("tf32"), std::pair(true, true));
  EXPECT_EQ(tf32_after("bf16"), std::pair(false, false));
}

TEST(Precision, NormsOfTwoByteGradientsAreFormedInFp32) {
  // Four elements of 60000: the norm is 120000, beyond fp16's 65504; its square 1.44e10.
  const at::Tensor half = at::full({2, 2}, 60000.0, at::kHalf);
  EXPECT_EQ(half.to(at::kFloat).max().item<double>(), 60000);  // a number that fp16 has
  EXPECT_EQ(squared_norm({half}), 1.44e10);
  // 257 ones: the norm is 16.03122, which bf16 would round to 16 and lose the last element.
  EXPECT_NEAR(squared_norm({at::ones({257}, at::kBFloat16)}), 257, 1e-3);
  EXPECT_NEAR(squared_norm({at::ones({257}, at::kBFloat16), at::full({3}, 2.0, at::kFloat)}), 257 + 12, 1e-3);
  EXPECT_DOUBLE_EQ(squared_norm({at::full({2}, 3.0, at::kDouble)}), 18);
  EXPECT_TRUE(std::isinf(squared_norm({at::full({2}, INFINITY, at::kHalf)}))) << "an overflow stays one";
  EXPECT_EQ(squared_norm({}), 0);
}

// The gradients' norm is 1.5; times this loss scale it lies beyond 65504, though no element does.
TEST(Precision, ANormBeyondHalfPrecisionIsNoOverflow) {
  const auto step = metrics_of(Folder(),
                               small_gpt(2, 1, 2,
                                         "optimizer: {name: sgd, learning_rate: 0.1}\nprecision: fp16-pure\n"
                                         "training: {loss_scale: {initial: 131072, growth_interval: 100}}\n"),
                               1)
                        .at(0);
  EXPECT_FALSE(step["skipped"]);
  EXPECT_GT(step["gradient_norm"].get<double>() * 131072, 65504);
}

// A rank reads its losses when the step is over, and yet before it decides about gradients: the cause is named, not what follows.
TEST(Precision, ALossThatIsNoNumberIsReportedBeforeTheNormOfItsGradients) {
  const Folder folder;
  const std::string file = folder.write(
      "s.yaml",
      small_gpt(2, 1, 2, "optimizer: {name: sgd, learning_rate: 1e38}\nschedule: gpipe\ntraining: {clip_gradients: 1}\n"));
  const Outcome outcome = run_threads(file, quiet(file, 5));
  ASSERT_EQ(outcome.errors.size(), 2u);
  EXPECT_EQ(outcome.errors[1], "step 2: the loss of microbatch 0 is nan (rank 1, replica 0)");
}

// Autocast acts as the list states: an operator that kept fp32 would refuse a weight in bf16.
TEST(Autocast, LowersWhatTheListStates) {
  const at::Tensor matrix = at::ones({4, 4}), batch = at::ones({2, 4, 4}), line = at::ones({1, 4, 8}),
                   area = at::ones({1, 4, 8, 8}), volume = at::ones({1, 4, 4, 4, 4});
  const auto kernel = [](int dimensions) {
    std::vector<std::int64_t> shape(dimensions + 2, 3);
    shape[0] = shape[1] = 4;
    return at::ones(shape);
  };
  const AutocastRegion region(at::kBFloat16, at::kCPU);
  const std::map<std::string, at::Tensor> results = {{"aten::linear", at::linear(matrix, matrix)},
                                                     {"aten::matmul", at::matmul(matrix, matrix)},
                                                     {"aten::mm", at::mm(matrix, matrix)},
                                                     {"aten::bmm", at::bmm(batch, batch)},
                                                     {"aten::addmm", at::addmm(matrix, matrix, matrix)},
                                                     {"aten::baddbmm", at::baddbmm(batch, batch, batch)},
                                                     {"aten::addbmm", at::addbmm(matrix, batch, batch)},
                                                     {"aten::conv1d", at::conv1d(line, kernel(1))},
                                                     {"aten::conv2d", at::conv2d(area, kernel(2))},
                                                     {"aten::conv3d", at::conv3d(volume, kernel(3))},
                                                     {"aten::conv_transpose1d", at::conv_transpose1d(line, kernel(1))},
                                                     {"aten::conv_transpose2d", at::conv_transpose2d(area, kernel(2))},
                                                     {"aten::conv_transpose3d", at::conv_transpose3d(volume, kernel(3))},
                                                     {"aten::add", at::add(matrix, matrix)},
                                                     {"aten::layer_norm", at::layer_norm(matrix, {4})},
                                                     {"aten::embedding", at::embedding(matrix, at::zeros({2}, at::kLong))}};
  for (const auto& [name, result] : results)
    EXPECT_EQ(result.scalar_type() == at::kBFloat16, find_row(name)->traits.autocast) << name << ": " << result.scalar_type();
}

TEST(WeightCopies, AreReadInTheWeightsPlaceAndSendItsGradientBack) {
  const at::Tensor weight = at::tensor({1.0, 2.0, 1.00390625}, at::kFloat).requires_grad_(true);  // the last rounds to 1 in bf16
  const at::Tensor foreign = at::ones({3}).requires_grad_(true);
  WeightCopies copies(at::kBFloat16);
  copies.add(weight);
  const at::Tensor first = copies.stand_in(weight), second = copies.stand_in(weight);
  EXPECT_EQ(first.scalar_type(), at::kBFloat16);
  EXPECT_EQ(first.data_ptr(), second.data_ptr()) << "one copy for all uses";
  EXPECT_EQ(first[2].item<double>(), 1.0);
  EXPECT_TRUE(copies.stand_in(foreign).is_same(foreign));
  // Two uses with gradients 1 and 1/256: added up in fp32, where bf16 would drop the second.
  first.sum().backward();
  second.mul(1.0 / 256).sum().backward();
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad()[0].item<double>(), 1 + 1.0 / 256);
  {
    const at::NoGradGuard no_graph;
    weight.mul_(3);
    EXPECT_FALSE(copies.stand_in(weight).requires_grad());
  }
  EXPECT_EQ(copies.stand_in(weight)[1].item<double>(), 2) << "as it was when the step began";
  copies.refresh();
  EXPECT_EQ(copies.stand_in(weight)[1].item<double>(), 6);
}

}  // namespace
}  // namespace panpipe::exec
