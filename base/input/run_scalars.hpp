// Typed reading of the quantities of a whole run (base/run_quantities.hpp), like reader.hpp for those of a step.
#pragma once

#include <optional>

#include "base/input/reader.hpp"
#include "base/run_quantities.hpp"

namespace panpipe {

// Each logs an error and returns nullopt when the scalar is wrong. Only read_power accepts 0.
std::optional<Power> read_power(const Node& node, ReadLog& log);  // not negative
std::optional<Money> read_money(const Node& node, ReadLog& log);
std::optional<double> read_count(const Node& node, ReadLog& log);
std::optional<double> read_carbon_intensity(const Node& node, ReadLog& log);

}  // namespace panpipe
