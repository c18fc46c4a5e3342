#include "base/quantity.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace panpipe {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};

// Only the operators that mean something exist.
static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Duration>);
static_assert(!Addable<Duration, Ticks>);
static_assert(!Addable<Bytes, int>);
static_assert(!Comparable<Bytes, Duration>);
static_assert(Divisible<Bytes, Bandwidth>);
static_assert(Divisible<Flops, ComputeRate>);
static_assert(!Divisible<Bytes, ComputeRate>);
static_assert(!Divisible<Flops, Bandwidth>);
static_assert(!Divisible<Bandwidth, Bytes>);
static_assert(!std::is_convertible_v<double, Duration>, "a bare number is no quantity");
static_assert(std::is_same_v<decltype(bytes(1) / gb_per_s(1)), Duration>);
static_assert(std::is_same_v<decltype(flops(1) / tflops_per_s(1)), Duration>);
static_assert(std::is_same_v<decltype(bytes(1) / seconds(1)), Bandwidth>);
static_assert(std::is_same_v<decltype(gib(1) / mib(1)), double>);

TEST(Quantity, SizeOverRateIsTime) {
  // 25e9 B / (25e9 B/s) = 1 s; GB is 10^9 and GiB 2^30, 7 % apart.
  EXPECT_EQ((bytes(25'000'000'000) / gb_per_s(25)).base(), 1.0);
  EXPECT_DOUBLE_EQ((gib(25) / gb_per_s(25)).base(), 1.073741824);
  // 142e12 FLOP / (71e12 FLOP/s) = 2 s
  EXPECT_EQ((flops(142e12) / tflops_per_s(71)).base(), 2.0);
  EXPECT_EQ((bytes(50) / seconds(2)).base(), 25.0);
}

TEST(Quantity, ArithmeticOfOneKind) {
  EXPECT_EQ(kib(1) + bytes(1), bytes(1025));
  EXPECT_EQ(-bytes(3), bytes(-3));
  EXPECT_EQ(2 * mib(3), mib(6));
  EXPECT_EQ(mib(7) / 2, bytes(3'670'016));  // 7 x 1048576 / 2
  EXPECT_EQ(gib(1) / mib(1), 1024.0);
  EXPECT_LT(micros(999), millis(1));
}

TEST(Quantity, TicksAreWholePicoseconds) {
  EXPECT_EQ(to_ticks(micros(1)).base(), 1e6);
  EXPECT_EQ(to_ticks(Duration(0.4e-12)).base(), 0.0);
  EXPECT_EQ(to_ticks(Duration(0.6e-12)).base(), 1.0);
  // Whole numbers below 2^53 in doubles: sums do not depend on the order. 2^53 ps = 9007 s = 2.5 h.
  Ticks forward(0), backward(0);
  for (int i = 1; i <= 1000; ++i) forward += to_ticks(seconds(i * 0.001234567891));
  for (int i = 1000; i >= 1; --i) backward += to_ticks(seconds(i * 0.001234567891));
  EXPECT_EQ(forward, backward);
}

}  // namespace
}  // namespace panpipe
