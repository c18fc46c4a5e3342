#include "tests/stand_in_gpu/nccl/types.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace panpipe::stand_in {
namespace {

// bfloat16 is the upper half of a float; what is cut off is rounded to nearest even.
struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if (value == value) word += 0x7FFF + ((word >> 16) & 1);  // a NaN keeps its bits
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class Value>
struct Computed {
  using Type = Value;
};
template <>
struct Computed<_Float16> {
  using Type = float;
};
template <>
struct Computed<Bfloat16> {
  using Type = float;
};

template <class Function>
void with_type(ncclDataType_t type, Function function) {
  switch (type) {
    case ncclInt8:
      return function(std::int8_t());
    case ncclUint8:
      return function(std::uint8_t());
    case ncclInt32:
      return function(std::int32_t());
    case ncclUint32:
      return function(std::uint32_t());
    case ncclInt64:
      return function(std::int64_t());
    case ncclUint64:
      return function(std::uint64_t());
    case ncclFloat16:
      return function(_Float16());
    case ncclBfloat16:
      return function(Bfloat16());
    case ncclFloat32:
      return function(float());
    case ncclFloat64:
      return function(double());
    default:
      return;
  }
}

template <class Function>
void for_each(void* values, std::size_t count, ncclDataType_t type, Function function) {
  with_type(type, [&]<class Value>(Value) {
    auto* all = static_cast<Value*>(values);
    for (std::size_t i = 0; i < count; ++i)
      all[i] = static_cast<Value>(function(static_cast<typename Computed<Value>::Type>(all[i])));
  });
}

template <class Number>
Number combined(Number a, Number b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd:
      return static_cast<Number>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<Number>(a + b);
  }
}

}  // namespace

std::size_t width_of(ncclDataType_t type) {
  std::size_t width = 1;  // of 8-bit floats, which are not computed with
  with_type(type, [&]<class Value>(Value) { width = sizeof(Value); });
  return width;
}

bool can_reduce(ncclDataType_t type, ncclRedOp_t operation) {
  return type != ncclFloat8e4m3 && type != ncclFloat8e5m2 && operation <= ncclAvg;
}

void reduce(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  with_type(type, [&]<class Value>(Value) {
    using Number = typename Computed<Value>::Type;
    auto* to = static_cast<Value*>(into);
    const auto* values = static_cast<const Value*>(from);
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<Value>(combined(static_cast<Number>(to[i]), static_cast<Number>(values[i]), operation));
  });
}

void multiply(void* values, std::size_t count, ncclDataType_t type, double by) {
  for_each(values, count, type, [by]<class Number>(Number value) { return value * static_cast<Number>(by); });
}

void divide(void* values, std::size_t count, ncclDataType_t type, int by) {
  for_each(values, count, type, [by]<class Number>(Number value) { return value / static_cast<Number>(by); });
}

double number_at(const void* value, ncclDataType_t type) {
  double number = 0;
  with_type(type, [&]<class Value>(Value) {
    using Number = typename Computed<Value>::Type;
    number = static_cast<double>(static_cast<Number>(*static_cast<const Value*>(value)));
  });
  return number;
}

}  // namespace panpipe::stand_in
