#include "costmodel/degrees/axes.hpp"

#include <fmt/format.h>

namespace panpipe {

std::string product_text(const Degrees& degrees) {
  std::string text;
  for (const Axis& axis : kAxes)
    if (axis.multiplies && axis.written(degrees))
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.key, axis.of(degrees));
  return text;
}

std::string replicas_text(const Degrees& degrees) {
  return degrees.context > 1 ? fmt::format("data {} x context {}", degrees.data, degrees.context)
                             : fmt::format("data {}", degrees.data);
}

std::vector<std::pair<std::string, std::string>> written_degrees(const Degrees& degrees) {
  std::vector<std::pair<std::string, std::string>> written;
  for (const Axis& axis : kAxes)
    if (axis.written(degrees)) written.emplace_back(axis.key, axis.text(degrees));
  return written;
}

std::string yaml_of(const Degrees& degrees) {
  std::string text;
  for (const auto& [key, value] : written_degrees(degrees)) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, value);
  return "{" + text + "}";
}

}  // namespace panpipe
