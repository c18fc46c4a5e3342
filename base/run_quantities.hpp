// Units of what a whole training run takes, beside those of a step (base/quantity.hpp): electrical power, and money.
#pragma once

#include <string>

#include "base/quantity.hpp"

namespace panpipe {

using Power = Quantity<struct PowerTag, double>;  // watts

constexpr Power watts(double v) { return Power(v); }

// Amounts of different currencies do not compare and do not add: nothing here knows exchange rates.
struct Money {
  double amount = 0;
  std::string currency;  // three letters, as ISO 4217 writes them: "USD"
};

}  // namespace panpipe
