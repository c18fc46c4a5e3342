#include "exec/engine/measure/span_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

// visit(name, field) for every field that is sent; `span` is constant for the writer.
template <class AnySpan, class Visit>
void for_each_field(AnySpan& span, Visit visit) {
  visit("lane", span.lane);
  visit("kind", span.action.kind);
  visit("stage", span.action.stage);
  visit("microbatch", span.action.microbatch);
  visit("split", span.action.split);
  visit("label", span.label);
  visit("peer", span.peer);
  visit("start", span.start);
  visit("end", span.end);
  visit("bytes", span.bytes);
  visit("flow", span.flow_id);
  visit("waiting", span.waiting);
}

template <class T>
json written(const T& field) {
  if constexpr (requires { field.base(); })
    return field.base();
  else
    return field;
}

template <class T>
void read(const json& value, T& field) {
  if constexpr (requires { field.base(); })
    field = T(value.get<decltype(field.base())>());
  else
    value.get_to(field);
}

std::vector<std::string> names_of(const json& columns) {
  std::vector<std::string> names;
  for (const auto& [name, column] : columns.items()) names.push_back(name);
  return names;
}

}  // namespace

json columns_of(const std::vector<Span>& spans) {
  json columns = json::object();
  const Span none;
  for_each_field(none, [&](const char* name, const auto&) { columns[name] = json::array(); });
  for (const Span& span : spans)
    for_each_field(span, [&](const char* name, const auto& field) { columns[name].push_back(written(field)); });
  return columns;
}

std::vector<Span> spans_of(const json& columns, int rank) {
  const std::vector<std::string> expected = names_of(columns_of({})), found = names_of(columns);
  if (found != expected)
    throw MachineError(
        fmt::format("the ranks run different builds of panpipe: rank {} sends the fields {} of a span, rank 0 "
                    "knows {}; start the same program on every host",
                    rank, fmt::join(found, ", "), fmt::join(expected, ", ")));
  std::vector<Span> spans(columns.at("start").size());
  for (std::size_t i = 0; i < spans.size(); ++i)
    for_each_field(spans[i], [&](const char* name, auto& field) { read(columns.at(name).at(i), field); });
  return spans;
}

}  // namespace panpipe::exec
