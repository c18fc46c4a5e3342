#include "base/text/quantity_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace panpipe {
namespace {

template <class T>
T value_of(const Parsed<T>& parsed) {
  EXPECT_TRUE(parsed.value.has_value()) << parsed.problem;
  EXPECT_EQ(parsed.problem, "");
  return parsed.value.value_or(T{});
}

TEST(QuantityText, EveryUnit) {
  EXPECT_EQ(value_of(parse_duration("5 us")), micros(5));
  EXPECT_EQ(value_of(parse_duration("1.5 ms")), Duration(1.5e-3));
  EXPECT_EQ(value_of(parse_duration("2 min")), seconds(120));
  EXPECT_EQ(value_of(parse_duration("1 h")), seconds(3600));
  EXPECT_EQ(value_of(parse_duration("7 ns")), Duration(7e-9));
  EXPECT_EQ(value_of(parse_duration("7 ps")), Duration(7e-12));
  EXPECT_EQ(value_of(parse_bytes("24 GiB")), gib(24));
  EXPECT_EQ(value_of(parse_bytes("24 GB")), bytes(24'000'000'000));
  EXPECT_EQ(value_of(parse_bytes("3 TiB")), gib(3072));
  EXPECT_EQ(value_of(parse_bytes("1 kB")), bytes(1000));
  EXPECT_EQ(value_of(parse_bytes("1 KiB")), bytes(1024));
  EXPECT_EQ(value_of(parse_bandwidth("25 GB/s")), gb_per_s(25));
  EXPECT_EQ(value_of(parse_bandwidth("200 Gb/s")), gb_per_s(25));  // b is a bit: 200 / 8
  EXPECT_EQ(value_of(parse_bandwidth("1 GiB/s")), Bandwidth(1073741824.0));
  EXPECT_EQ(value_of(parse_bandwidth("unlimited")).base(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value_of(parse_compute_rate("71 TFLOP/s")), tflops_per_s(71));
  EXPECT_EQ(value_of(parse_compute_rate("1 PFLOP/s")), tflops_per_s(1000));
  EXPECT_DOUBLE_EQ(value_of(parse_fraction("85 %")), 0.85);
}

TEST(QuantityText, SpellingsThatAreAccepted) {
  EXPECT_EQ(value_of(parse_bytes("24GiB")), gib(24));
  EXPECT_EQ(value_of(parse_bytes("  24   GiB ")), gib(24));
  EXPECT_EQ(value_of(parse_bytes("0")), bytes(0));
  EXPECT_EQ(value_of(parse_duration("0.0")), seconds(0));
  EXPECT_EQ(value_of(parse_bytes("1.5e3 B")), bytes(1500));
  EXPECT_EQ(value_of(parse_bytes("+2 B")), bytes(2));
  EXPECT_EQ(value_of(parse_bytes("-2 MiB")), mib(-2));
  EXPECT_EQ(value_of(parse_bytes("1950351360 B")), bytes(1'950'351'360));
  EXPECT_EQ(value_of(parse_bytes("9007199254740993 B")), bytes(9'007'199'254'740'993));  // 2^53 + 1, not a double
  EXPECT_EQ(value_of(parse_bytes("0.7 B")), bytes(1));                                   // whole bytes, rounded
  EXPECT_EQ(value_of(parse_number("-1.5e-3")), -1.5e-3);
  EXPECT_EQ(value_of(parse_integer("-12")), -12);
}

// The sentence is the feature: it states what to write.
TEST(QuantityText, ABareNumberShowsTheRightSpelling) {
  EXPECT_EQ(parse_bytes("24").problem, "'24' has no unit; write '24 GiB' or '24 GB'");
  EXPECT_EQ(parse_duration("5").problem, "'5' has no unit; write '5 us', '5 ms' or '5 s'");
  EXPECT_EQ(parse_bandwidth("25").problem, "'25' has no unit; write '25 GB/s'");
  EXPECT_EQ(parse_compute_rate("71").problem, "'71' has no unit; write '71 TFLOP/s'");
  EXPECT_EQ(parse_fraction("85").problem, "'85' has no unit; write '85 %'");
  EXPECT_EQ(parse_fraction("0.85").problem, "'0.85' has no unit; write '85 %'");
}

TEST(QuantityText, WrongUnits) {
  EXPECT_EQ(parse_bytes("24 gb").problem, "unknown unit 'gb', did you mean 'GB'?");
  EXPECT_EQ(parse_bytes("24 GB/s").problem, "'24 GB/s' is a bandwidth, where a size is expected, as in '24 GiB'");
  EXPECT_EQ(parse_duration("24 GiB").problem, "'24 GiB' is a size, where a time is expected, as in '24 us'");
  EXPECT_EQ(parse_bandwidth("25 Gbps").problem, "unknown unit 'Gbps', did you mean 'Gb/s'?");
  EXPECT_EQ(parse_compute_rate("71 TFLOPS").problem, "unknown unit 'TFLOPS', did you mean 'TFLOP/s'?");
  EXPECT_EQ(parse_bytes("unlimited").problem, "'unlimited' is for bandwidths only");
}

TEST(QuantityText, NumbersFarFromAnythingThatExistsAreOutOfRange) {
  for (const char* text : {"1e300 s", "1e-300 s", "300000 h", "-1e300 s"})
    EXPECT_EQ(parse_duration(text).problem, "'" + std::string(text) + "' is out of range; a time is between 1e-18 s and 1e9 s");
  for (const char* text : {"1e-300 GB/s", "1e-10 B/s", "1e300 GB/s"})
    EXPECT_EQ(parse_bandwidth(text).problem,
              "'" + std::string(text) + "' is out of range; a bandwidth is between 1e-9 B/s and 1e6 TB/s");
  EXPECT_EQ(parse_compute_rate("1e-300 TFLOP/s").problem,
            "'1e-300 TFLOP/s' is out of range; a compute rate is between 1 FLOP/s and 1e15 PFLOP/s");
  EXPECT_EQ(parse_fraction("1e-300 %").problem, "'1e-300 %' is out of range; a share is between 1e-10 % and 1e11 %");
  for (const char* text : {"1e308", "-1e308", "1e-320"})
    EXPECT_EQ(parse_number(text).problem, "'" + std::string(text) + "' is out of range; a number is between 1e-38 and 1e38");
  // The ends themselves, and zero, are inside.
  EXPECT_EQ(parse_duration("1e9 s").value, seconds(1e9));
  EXPECT_EQ(parse_duration("0 s").value, seconds(0));
  EXPECT_EQ(parse_bandwidth("1e-9 B/s").value, Bandwidth(1e-9));
  EXPECT_EQ(parse_number("1e38").value, 1e38);
}

TEST(QuantityText, NumbersThatAreNone) {
  EXPECT_EQ(parse_bytes("lots").problem, "'lots' is not a size; write it as in '24 GiB'");
  EXPECT_EQ(parse_bytes("").problem, "the text is empty");
  EXPECT_EQ(parse_duration("inf").problem, "'inf' is not a finite number");
  EXPECT_EQ(parse_duration(".nan").problem, "'.nan' is not a finite number");
  EXPECT_EQ(parse_duration("1e999 s").problem, "'1e999 s' is out of range");
  EXPECT_EQ(parse_bytes("1e19 B").problem, "'1e19 B' is out of range");
  EXPECT_EQ(parse_integer("010").problem, "'010' has a leading zero; numbers are decimal, write '10'");
  EXPECT_EQ(parse_bytes("010 GiB").problem, "'010' has a leading zero; numbers are decimal, write '10'");
  EXPECT_EQ(parse_integer("0x10").problem,
            "'0x10' is not a number; write digits, a decimal point and an exponent only, as in '1500' or '1.5e3'");
  EXPECT_EQ(parse_number("1_000").problem,
            "'1_000' is not a number; write digits, a decimal point and an exponent only, as in '1500' or '1.5e3'");
  EXPECT_EQ(parse_number("1,5").problem,
            "'1,5' is not a number; write digits, a decimal point and an exponent only, as in '1500' or '1.5e3'");
  EXPECT_EQ(parse_integer("8.0").problem, "'8.0' is not a whole number; write '8'");
  EXPECT_EQ(parse_integer("1e9").problem, "'1e9' is not a whole number; write '1000000000'");
  EXPECT_EQ(parse_integer("1e300").problem, "'1e300' is not a whole number");
  EXPECT_EQ(parse_integer("8.5").problem, "'8.5' is not a whole number");
  EXPECT_EQ(parse_integer("8 GiB").problem, "'8 GiB' is not a whole number; this value has no unit, write '8'");
  EXPECT_EQ(parse_integer("99999999999999999999").problem, "'99999999999999999999' is out of range");
  EXPECT_EQ(parse_integer("yes").problem, "'yes' is not a whole number");
}

TEST(QuantityText, ForPeopleThreeToFourDigits) {
  EXPECT_EQ(to_text(seconds(1.2341)), "1.234 s");
  EXPECT_EQ(to_text(millis(12.34)), "12.3 ms");
  EXPECT_EQ(to_text(micros(999.99)), "1 ms");
  EXPECT_EQ(to_text(seconds(0)), "0 ps");
  EXPECT_EQ(to_text(millis(-2)), "-2 ms");
  EXPECT_EQ(to_text(to_ticks(micros(5))), "5 us");
  EXPECT_EQ(to_text(mib(22938)), "22.4 GiB");  // 22938 / 1024 = 22.40
  EXPECT_EQ(to_text(bytes(512)), "512 B");
  EXPECT_EQ(to_text(gb_per_s(25)), "25 GB/s");
  EXPECT_EQ(to_text(Bandwidth(std::numeric_limits<double>::infinity())), "unlimited");
  EXPECT_EQ(to_text(tflops_per_s(312)), "312 TFLOP/s");
  EXPECT_EQ(to_text(flops(4.51e21)), "4510 EFLOP");
}

TEST(QuantityText, ExactTextParsesBackToTheSameValue) {
  EXPECT_EQ(exact_text(gib(24)), "24 GiB");
  EXPECT_EQ(exact_text(seconds(0.00026)), "260 us");
  EXPECT_EQ(exact_text(bytes(1'950'351'360)), "1860 MiB");  // 1950351360 / 1048576 = 1860
  EXPECT_EQ(exact_text(bytes(-1500)), "-1500 B");
  EXPECT_EQ(exact_text(gb_per_s(25)), "25 GB/s");
  EXPECT_EQ(exact_fraction_text(0.85), "85 %");
  // A linear congruential sequence over many magnitudes.
  std::uint64_t state = 12345;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double number = std::ldexp(static_cast<double>(state >> 11), static_cast<int>(state % 70) - 100);
    EXPECT_EQ(value_of(parse_duration(exact_text(Duration(number)))), Duration(number));
    EXPECT_EQ(value_of(parse_bandwidth(exact_text(Bandwidth(number * 1e9)))), Bandwidth(number * 1e9));
    const Bytes size(static_cast<std::int64_t>(state >> (1 + state % 60)));
    EXPECT_EQ(value_of(parse_bytes(exact_text(size))), size);
  }
}

}  // namespace
}  // namespace panpipe
