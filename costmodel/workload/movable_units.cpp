#include "costmodel/workload/movable_units.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/json_writer.hpp"
#include "base/text/quantity_text.hpp"
#include "costmodel/workload/archive_prepare.hpp"

namespace panpipe {
namespace {

std::string module_of(const Operator& op) { return op.module.empty() ? "the model itself" : "module '" + op.module + "'"; }

// Operators of each unit: [first, end).
std::vector<std::pair<std::size_t, std::size_t>> ranges_of(const OperatorGraph& graph) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges(graph.units.size(), {graph.operators.size(), 0});
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    auto& [first, end] = ranges[graph.operators[i].unit];
    first = std::min(first, i);
    end = i + 1;
  }
  return ranges;
}

std::string written_text(const OperatorGraph& graph, const WrittenSpan& span) {
  const Tensor& tensor = graph.tensors[span.tensor];
  const std::string between = fmt::format("operators {} to {}", span.first, span.last);
  switch (tensor.role) {
    case TensorRole::Buffer:
      return fmt::format("buffer '{}' is written, and lives on one rank from its first use to its last ({})", tensor.name,
                         between);
    case TensorRole::Input:
      return fmt::format("input '{}' is written in place, and all that read it then stay on that rank ({})", tensor.name,
                         between);
    default:
      return fmt::format("'{}' is written in place by {}, and no rank writes into what another one made ({})", tensor.name,
                         graph.operators[span.last].target, between);
  }
}

}  // namespace

std::vector<std::string> why_together(const OperatorGraph& graph) {
  std::vector<std::string> reasons(graph.operators.size());
  const auto same_unit = [&](std::size_t i) { return i > 0 && graph.operators[i].unit == graph.operators[i - 1].unit; };
  for (const WrittenSpan& span : written_spans(graph))
    for (int i = span.first + 1; i <= span.last; ++i)
      if (const auto at = static_cast<std::size_t>(i); same_unit(at) && reasons[at].empty())
        reasons[at] = written_text(graph, span);
  const std::vector<int> owner = memory_owners(graph);
  for (std::size_t i = 1; i < graph.operators.size(); ++i) {
    if (!same_unit(i) || !reasons[i].empty()) continue;
    const Operator& op = graph.operators[i];
    if (op.module == graph.operators[i - 1].module)
      reasons[i] = fmt::format("{} holds the operator before it too, and is not cut inside", module_of(op));
    else
      reasons[i] =
          fmt::format("{} is part of '{}', the smallest unit that can be moved", module_of(op), graph.units[op.unit].name);
    for (const int made : op.outputs) {
      const int owned = owner[made];
      const Tensor& tensor = graph.tensors[owned];
      if (owned == made || tensor.producer < 0) continue;
      reasons[i] += fmt::format("; its result is a view of '{}' (operator {})", tensor.name, tensor.producer);
      break;
    }
  }
  return reasons;
}

std::string why_no_cut(const OperatorGraph& graph, const std::string& place) {
  std::size_t at = graph.operators.size();
  if (place.starts_with('#')) {
    const Parsed<long long> number = parse_integer(place.substr(1));
    if (number.value && *number.value >= 0) at = static_cast<std::size_t>(*number.value);
  } else {
    const auto inside = [&](const Operator& op) { return op.module == place || op.module.starts_with(place + "."); };
    at = static_cast<std::size_t>(std::find_if(graph.operators.begin(), graph.operators.end(), inside) - graph.operators.begin());
  }
  if (at >= graph.operators.size()) return "";
  const auto index = static_cast<std::size_t>(graph.operators[at].unit);
  const UnitInfo& unit = graph.units[index];
  const auto [first, end] = ranges_of(graph)[index];
  if (at == first) return fmt::format("'{}' begins with unit '{}': name that", place, unit.name);
  const std::string after = index + 1 < graph.units.size() ? fmt::format(" or '{}'", graph.units[index + 1].name) : "";
  return fmt::format(
      "no cut may stand in front of '{}' (operator {}, {}): it lies inside unit '{}' (operators {} to {}), because {}; "
      "cut in front of '{}'{}",
      place, at, graph.operators[at].target, unit.name, first, end - 1, why_together(graph)[at], unit.name, after);
}

std::string units_table(const OperatorGraph& graph) {
  const std::vector<std::string> reasons = why_together(graph);
  const auto ranges = ranges_of(graph);
  std::string text = fmt::format("{} movable units of {} operators; a cut may stand in front of each but the first\n",
                                 graph.units.size(), graph.operators.size());
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    const auto [first, end] = ranges[u];
    const std::string& block = graph.units[u].block;
    text += fmt::format("{:>5}  {}{}: operator{} {}\n", u, graph.units[u].name, block.empty() ? "" : " (block " + block + ")",
                        end - first == 1 ? "" : "s",
                        end - first == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, end - 1));
    std::vector<std::pair<std::string, std::vector<std::size_t>>> together;  // by reason, in order
    for (std::size_t i = first + 1; i < end; ++i) {
      auto known = std::find_if(together.begin(), together.end(), [&](const auto& entry) { return entry.first == reasons[i]; });
      if (known == together.end()) known = together.insert(together.end(), {reasons[i], {}});
      known->second.push_back(i);
    }
    for (const auto& [reason, operators] : together) {
      std::string numbers;
      for (std::size_t k = 0; k < operators.size(); ++k) {
        std::size_t last = k;
        while (last + 1 < operators.size() && operators[last + 1] == operators[last] + 1) ++last;
        numbers += fmt::format("{}#{}", numbers.empty() ? "" : ", ", operators[k]);
        if (last > k) numbers += fmt::format("-{}", operators[last]);
        k = last;
      }
      text += fmt::format("       not before {}: {}\n", numbers, reason);
    }
  }
  return text;
}

std::string units_json(const OperatorGraph& graph) {
  const std::vector<std::string> reasons = why_together(graph);
  const auto ranges = ranges_of(graph);
  JsonWriter out;
  out.object().field("schema", "panpipe-units/1").list("units", JsonLayout::Lines);
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    out.object().field("index", u).field("name", graph.units[u].name).field("block", graph.units[u].block);
    out.list("operators", JsonLayout::Lines);
    for (std::size_t i = ranges[u].first; i < ranges[u].second; ++i) {
      const Operator& op = graph.operators[i];
      out.object().field("operator", i).field("target", op.target).field("module", op.module);
      out.field("no_cut_before", reasons[i].empty() ? std::nullopt : std::optional(reasons[i])).end();
    }
    out.end().end();
  }
  return out.end().end().finish() + "\n";
}

}  // namespace panpipe
