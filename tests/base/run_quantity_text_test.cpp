// Power, money, counts and carbon intensities as text.
#include <gtest/gtest.h>

#include "base/text/run_quantity_text.hpp"

namespace panpipe {
namespace {

TEST(RunQuantityText, UnitsAreRead) {
  EXPECT_EQ(parse_power("700 W").value, watts(700));
  EXPECT_EQ(parse_power("10.2kW").value, watts(10200));
  EXPECT_EQ(exact_text(watts(700)), "700 W");
  EXPECT_EQ(parse_carbon_intensity("385 g/kWh").value, 385);
  EXPECT_EQ(parse_carbon_intensity("0.385 kg/kWh").value, 385);
  EXPECT_EQ(parse_duration("7d").value, Duration(604800));
  EXPECT_EQ(parse_power("700").problem, "'700' has no unit; write '700 W'");
  EXPECT_EQ(parse_power("5 us").problem, "'5 us' is a time, where a power is expected, as in '5 W'");
}

TEST(RunQuantityText, MoneyHasACurrency) {
  const Parsed<Money> price = parse_money("2.5 EUR");
  ASSERT_TRUE(price.value);
  EXPECT_EQ(price.value->amount, 2.5);
  EXPECT_EQ(price.value->currency, "EUR");
  EXPECT_EQ(parse_money("50000USD").value->amount, 50000);
  EXPECT_EQ(parse_money("2.5").problem, "'2.5' has no currency; write '2.5 USD' or '2.5 EUR'");
  EXPECT_EQ(parse_money("2.5 $").problem, "'$' is not a currency; write three capital letters, as in '2.5 USD'");
  EXPECT_EQ(parse_money("2.5 usd").problem, "'usd' is not a currency; write three capital letters, as in '2.5 USD'");
  EXPECT_EQ(parse_money("1e300 USD").problem, "'1e300 USD' is out of range; an amount of money is between 1e-9 and 1e18");
}

TEST(RunQuantityText, CountsAreWhole) {
  EXPECT_EQ(parse_count("300B").value, 3e11);
  EXPECT_EQ(parse_count("15.6 T").value, 15.6e12);
  EXPECT_EQ(parse_count("1.2M").value, 1.2e6);
  EXPECT_EQ(parse_count("250000").value, 250000);
  EXPECT_EQ(parse_count("1e12").value, 1e12);
  EXPECT_EQ(parse_count("2e18").problem, "'2e18' is out of range; a count is between 1 and 1e18");
  EXPECT_EQ(parse_count("1.5").problem, "'1.5' is not a whole count");
  EXPECT_EQ(parse_count("0").problem, "'0' must be at least 1");
  EXPECT_EQ(parse_count("-3B").problem, "'-3B' must be at least 1");
  EXPECT_EQ(parse_count("5G").problem,
            "'5G' is not a count; after the number stands k, M, B (1e9), T (1e12) or nothing, as in '300B'");
}

TEST(RunQuantityText, ForPeople) {
  EXPECT_EQ(long_time_text(59), "59 s");
  EXPECT_EQ(long_time_text(1800), "30 min");
  EXPECT_EQ(long_time_text(30 * 3600), "30 h");
  EXPECT_EQ(long_time_text(54 * 86400.0), "54 d");
  EXPECT_EQ(energy_text(0.0339), "33.9 Wh");
  EXPECT_EQ(energy_text(433196), "433.2 MWh");
  EXPECT_EQ(energy_text(21.6e6), "21.6 GWh");
  EXPECT_EQ(money_text(0.907, "USD"), "0.91 USD");
  EXPECT_EQ(money_text(999.5, "USD"), "999.50 USD");
  EXPECT_EQ(money_text(1000, "EUR"), "1,000 EUR");
  EXPECT_EQ(money_text(1234567.8, "EUR"), "1,234,568 EUR");
  EXPECT_EQ(money_text(123456, ""), "123,456");
  EXPECT_EQ(count_text(0.302), "0.302");
  EXPECT_EQ(count_text(9999), "9999");
  EXPECT_EQ(count_text(152588), "152.6 k");
  EXPECT_EQ(count_text(3e11), "300 B");
}

}  // namespace
}  // namespace panpipe
