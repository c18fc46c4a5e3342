// Units of a whole training run, in addition to those of a step (base/quantity.hpp): electrical power and money.
#pragma once

#include <string>

#include "base/quantity.hpp"

namespace panpipe {

using Power = Quantity<struct PowerTag, double>;  // watts

constexpr Power watts(double v) { return Power(v); }

// Amounts in different currencies neither compare nor add; Panpipe knows no exchange rates.
struct Money {
  double amount = 0;
  std::string currency;  // ISO 4217 code of three letters: "USD"
};

}  // namespace panpipe
