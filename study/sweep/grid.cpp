#include "study/sweep/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/input/json_input.hpp"
#include "base/option_fault.hpp"

namespace panpipe::study {
namespace {

constexpr const char* kOver = "over";
constexpr const char* kSpelling = "write KEY=VALUE,VALUE, as in parallel.pipeline=2,4,8";

// At commas that stand outside of brackets, braces and quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  for (std::string& value : values) {
    value.erase(0, value.find_first_not_of(' '));
    value.erase(value.find_last_not_of(' ') + 1);
  }
  return values;
}

// Each cell is a line of a table and a row of a page, and each takes a prediction.
constexpr std::size_t kMostCells = 1'000'000;

void check_size(const SweepGrid& grid, const std::string& where) {
  std::size_t cells = 1;
  for (const SweepAxis& axis : grid.axes) {
    cells *= axis.values.size();
    if (cells > kMostCells)
      throw InputError({diagnostic_of_file(where, fmt::format("the grid has more than {} cells", kMostCells),
                                           "vary fewer keys at once, or give them fewer values")});
  }
}

std::string key_of(const std::string& assignment) { return assignment.substr(0, assignment.find('=')); }

}  // namespace

bool is_given(const std::string& key) {
  static constexpr const char* kGiven[] = {"cluster", "workload", "run", "profile", "usable", "memory_model"};
  return std::any_of(std::begin(kGiven), std::end(kGiven), [&](const std::string& given) {
    return key.starts_with(given) && (key.size() == given.size() || key[given.size()] == '.');
  });
}

SweepAxis parse_axis(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw option_fault(kOver, fmt::format("'{}': a key and '=' are missing", text), kSpelling);
  SweepAxis axis{text.substr(0, equals), split_values(text.substr(equals + 1))};
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty()) throw option_fault(kOver, fmt::format("'{}': a value is empty", text), kSpelling);
    if (!seen.insert(value).second)
      throw option_fault(kOver, fmt::format("'{}': the value '{}' is listed twice", text, value), kSpelling, code::kRepeated);
  }
  return axis;
}

void check_grid(const SweepGrid& grid) {
  if (grid.axes.empty()) throw option_fault(kOver, "there is nothing to vary", "give a key and its values");
  std::set<std::string> keys;
  for (const SweepAxis& axis : grid.axes) {
    if (!keys.insert(axis.key).second)
      throw option_fault(kOver, fmt::format("the key {} is varied twice", axis.key), "give all its values at once",
                         code::kRepeated);
    if (std::any_of(grid.sets.begin(), grid.sets.end(), [&](const std::string& set) { return key_of(set) == axis.key; }))
      throw option_fault(kOver, fmt::format("the key {} is varied, and overridden as well", axis.key), "leave one of the two out",
                         code::kConflict);
  }
  check_size(grid, "--over");
}

std::size_t SweepGrid::size() const {
  std::size_t size = 1;
  for (const SweepAxis& axis : axes) size *= axis.values.size();
  return size;
}

std::vector<std::string> SweepGrid::values(std::size_t cell) const {
  std::vector<std::string> result(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    result[i] = axes[i].values[cell % axes[i].values.size()];
    cell /= axes[i].values.size();
  }
  return result;
}

std::vector<std::string> SweepGrid::overrides(std::size_t cell) const {
  std::vector<std::string> result = sets;
  const std::vector<std::string> own = values(cell);
  for (std::size_t i = 0; i < axes.size(); ++i) result.push_back(axes[i].key + "=" + own[i]);
  return result;
}

std::string SweepGrid::key(std::size_t cell) const {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n", version, scenario, engine, method);
  for (const std::string& assignment : overrides(cell)) text += assignment + "\n";
  return sha256_of(text);
}

bool SweepGrid::separates(std::size_t axis) const {
  const auto chosen = [](const SweepAxis& other) { return !is_given(other.key) && other.values.size() > 1; };
  return is_given(axes[axis].key) && axes[axis].values.size() > 1 && std::any_of(axes.begin(), axes.end(), chosen);
}

namespace {

template <class Wanted>
std::string title_of_axes(const SweepGrid& grid, std::size_t cell, const Wanted& wanted) {
  const std::vector<std::string> own = grid.values(cell);
  std::string text;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (wanted(i)) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", grid.axes[i].key, own[i]);
  return text;
}

}  // namespace

std::string SweepGrid::title(std::size_t cell) const {
  return title_of_axes(*this, cell, [](std::size_t) { return true; });
}

std::string SweepGrid::environment(std::size_t cell) const {
  return title_of_axes(*this, cell, [&](std::size_t axis) { return separates(axis); });
}

std::string SweepGrid::choice(std::size_t cell) const {
  return title_of_axes(*this, cell, [&](std::size_t axis) { return !separates(axis); });
}

std::string to_json(const SweepGrid& grid) {
  nlohmann::ordered_json document = {{"schema", "panpipe-sweep-grid/1"},
                                     {"version", grid.version},
                                     {"scenario", grid.scenario},
                                     {"engine", grid.engine},
                                     {"method", grid.method}};
  document["set"] = grid.sets;
  document["axes"] = nlohmann::ordered_json::array();
  for (const SweepAxis& axis : grid.axes)
    document["axes"].push_back(nlohmann::ordered_json{{"key", axis.key}, {"values", axis.values}});
  return document.dump(2) + "\n";
}

SweepGrid parse_grid(const std::string& text, const std::string& path) {
  const auto document = parse_json<nlohmann::json>(text, path);
  try {
    if (document.at("schema") != "panpipe-sweep-grid/1")
      throw InputError({diagnostic_of_file(path, "this is not the grid of a sweep")});
    SweepGrid grid;
    document.at("version").get_to(grid.version);
    document.at("scenario").get_to(grid.scenario);
    document.at("engine").get_to(grid.engine);
    document.at("method").get_to(grid.method);
    document.at("set").get_to(grid.sets);
    for (const auto& axis : document.at("axes")) grid.axes.push_back({axis.at("key"), axis.at("values")});
    check_size(grid, path);
    return grid;
  } catch (const nlohmann::json::exception& error) {
    throw InputError({diagnostic_of_file(path, fmt::format("this is not the grid of a sweep: {}", error.what()))});
  }
}

}  // namespace panpipe::study
