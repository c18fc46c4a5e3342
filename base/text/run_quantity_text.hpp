// Quantities of a whole training run as text: "700 W", "2.5 EUR", "300B", "385 g/kWh". The rules for numbers and units in
// base/text/quantity_text.hpp apply here too.
#pragma once

#include <string>
#include <string_view>

#include "base/run_quantities.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {

Parsed<Power> parse_power(std::string_view text);              // W kW MW
Parsed<double> parse_carbon_intensity(std::string_view text);  // g/kWh kg/kWh ; grams of CO2 equivalent per kWh
Parsed<Money> parse_money(std::string_view text);              // "2.5 EUR", "50000USD": a number and a currency of three capitals
Parsed<double> parse_count(std::string_view text);             // "300B" -> 3e11; k M B T or none; whole, at least 1

std::string exact_text(Power value);  // "700 W"

// For people: "12.3 d" (from two days on), "5.2 h"; "1.2 MWh"; "47,250 USD" (`currency` may be empty); "300 B".
std::string long_time_text(double seconds);
std::string time_text(double seconds);  // of a step: "1.234 s", and from ten minutes on as a long time
std::string energy_text(double kwh);
std::string money_text(double amount, const std::string& currency);
std::string count_text(double count);

}  // namespace panpipe
