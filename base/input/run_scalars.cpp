#include "base/input/run_scalars.hpp"

#include "base/input/read_scalar.hpp"
#include "base/text/run_quantity_text.hpp"

namespace panpipe {

std::optional<Power> read_power(const Node& node, ReadLog& log) {
  return read_scalar<Power>(node, log, Sign::NonNegative, parse_power, "a power, as in '700 W'");
}

std::optional<Money> read_money(const Node& node, ReadLog& log) {
  return read_scalar<Money>(node, log, Sign::Positive, parse_money, "an amount of money, as in '2.5 USD'");
}

std::optional<double> read_count(const Node& node, ReadLog& log) {
  return read_scalar<double>(node, log, Sign::Any, parse_count, "a count, as in '300B'");
}

std::optional<double> read_carbon_intensity(const Node& node, ReadLog& log) {
  return read_scalar<double>(node, log, Sign::Positive, parse_carbon_intensity, "a carbon intensity, as in '385 g/kWh'");
}

}  // namespace panpipe
