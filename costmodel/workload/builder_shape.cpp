// Operators that move and reshape, convolutions, and losses.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "costmodel/workload/builder.hpp"

namespace panpipe {
namespace {

using Integers = std::vector<std::int64_t>;

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

constexpr std::int64_t kMeanReduction = 1;  // at::Reduction::Mean

}  // namespace

int GraphBuilder::view(int x, Shape result) {
  PANPIPE_CHECK(elements(result) == elements(shape(x)), "view: sizes do not fit at " + module_);
  Integers sizes = result;
  return op("aten::view", std::move(result), dtype(x), TensorRef{x}, std::move(sizes));
}

int GraphBuilder::reshape(int x, Shape result) {
  PANPIPE_CHECK(elements(result) == elements(shape(x)), "reshape: sizes do not fit at " + module_);
  Integers sizes = result;
  return op("aten::reshape", std::move(result), dtype(x), TensorRef{x}, std::move(sizes));
}

int GraphBuilder::transpose(int x, int first, int second) {
  Shape result = shape(x);
  std::swap(result[first], result[second]);
  return op("aten::transpose.int", std::move(result), dtype(x), TensorRef{x}, std::int64_t{first}, std::int64_t{second});
}

int GraphBuilder::permute(int x, Integers order) {
  Shape result;
  for (auto dimension : order) result.push_back(shape(x)[dimension]);
  return op("aten::permute", std::move(result), dtype(x), TensorRef{x}, std::move(order));
}

int GraphBuilder::unsqueeze(int x, int dimension) {
  Shape result = shape(x);
  result.insert(result.begin() + dimension, 1);
  return op("aten::unsqueeze", std::move(result), dtype(x), TensorRef{x}, std::int64_t{dimension});
}

int GraphBuilder::expand(int x, Shape result) {
  Integers sizes = result;
  return op("aten::expand", std::move(result), dtype(x), TensorRef{x}, std::move(sizes), false);
}

int GraphBuilder::select(int x, int dimension, std::int64_t index) {
  Shape result = shape(x);
  result.erase(result.begin() + dimension);
  return op("aten::select.int", std::move(result), dtype(x), TensorRef{x}, std::int64_t{dimension}, index);
}

int GraphBuilder::slice(int x, int dimension, std::int64_t start, std::int64_t end) {
  Shape result = shape(x);
  result[dimension] = end - start;
  return op("aten::slice.Tensor", std::move(result), dtype(x), TensorRef{x}, std::int64_t{dimension}, start, end,
            std::int64_t{1});
}

std::vector<int> GraphBuilder::split(int x, std::int64_t size, int dimension) {
  const std::int64_t extent = shape(x)[dimension];
  PANPIPE_CHECK(extent % size == 0, "split: parts do not fit at " + module_);
  Shape part = shape(x);
  part[dimension] = size;
  std::vector<int> parts = {
      op("aten::split.Tensor", part, dtype(x), TensorRef{x}, size, std::int64_t{dimension}),
  };
  const bool gradient = graph_.tensors.back().requires_gradient;
  graph_.operators.back().outputs.reserve(extent / size);
  for (std::int64_t i = 1; i < extent / size; ++i) {
    const int next = make_activation("aten::split.Tensor", part, dtype(x));
    graph_.tensors.back().producer = static_cast<int>(graph_.operators.size()) - 1;
    graph_.tensors.back().requires_gradient = gradient;
    graph_.operators.back().outputs.push_back(next);
    parts.push_back(next);
  }
  return parts;
}

int GraphBuilder::cat(const std::vector<int>& parts, int dimension) {
  Shape result = shape(parts.front());
  result[dimension] = 0;
  for (int part : parts) result[dimension] += shape(part)[dimension];
  return op("aten::cat", std::move(result), dtype(parts.front()), TensorList{parts}, std::int64_t{dimension});
}

int GraphBuilder::cast(int x, DType type) {
  if (dtype(x) == type) return x;
  return op("aten::to.dtype", shape(x), type, TensorRef{x}, type, false, false, NoArgument{});
}

int GraphBuilder::conv2d(int x, const std::string& name, std::int64_t out_channels, int kernel, int stride, int padding) {
  module(name);
  const Shape& in = shape(x);
  const auto extent = [&](std::int64_t size) { return (size + 2 * padding - kernel) / stride + 1; };
  Shape result = {in[0], out_channels, extent(in[2]), extent(in[3])};
  // PyTorch's own default: uniform in +-1/sqrt(fan-in), for weight and bias.
  const std::string init = fmt::format("uniform({:.6g})", 1.0 / std::sqrt(static_cast<double>(in[1] * kernel * kernel)));
  const int weight = parameter(name + ".weight", {out_channels, in[1], kernel, kernel}, init);
  const int bias = parameter(name + ".bias", {out_channels}, init);
  return op("aten::conv2d", std::move(result), dtype(x), TensorRef{x}, TensorRef{weight}, TensorRef{bias},
            Integers{stride, stride}, Integers{padding, padding}, Integers{1, 1}, std::int64_t{1});
}

int GraphBuilder::upsample_nearest(int x, std::int64_t height, std::int64_t width) {
  return op("aten::upsample_nearest2d.vec", {shape(x)[0], shape(x)[1], height, width}, dtype(x), TensorRef{x},
            Integers{height, width}, NoArgument{});
}

int GraphBuilder::cross_entropy(int logits, int labels) {
  // In 32 bits for every precision, as in training frameworks, because 8 bits of mantissa are too few for a loss.
  const int wide = cast(logits, DType::Float32);
  return op("aten::cross_entropy_loss", {}, DType::Float32, TensorRef{wide}, TensorRef{labels}, NoArgument{}, kMeanReduction,
            std::int64_t{-100}, 0.0);
}

int GraphBuilder::mse_loss(int x, int target) {
  const int wide = cast(x, DType::Float32), wide_target = cast(target, DType::Float32);
  return op("aten::mse_loss", {}, DType::Float32, TensorRef{wide}, TensorRef{wide_target}, kMeanReduction);
}

}  // namespace panpipe
