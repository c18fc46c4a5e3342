#include "validation/fit/operator_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "base/input/reader.hpp"
#include "base/text/quantity_text.hpp"
#include "validation/runs/csv_table.hpp"

namespace panpipe::validation {
namespace {

using Shape = std::vector<double>;

constexpr std::array kProducts = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm"};
// They move nothing, or nothing that counts.
constexpr std::array kViews = {"view",    "transpose", "t",     "unsqueeze", "squeeze", "split",  "expand",
                               "permute", "select",    "slice", "detach",    "chunk",   "unbind", "split_with_sizes"};
constexpr std::array kOthers = {"embedding", "reshape", "contiguous", "clone", "dropout", "arange"};

template <std::size_t N>
bool among(const std::array<const char*, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "aten::split.Tensor" -> "split"
std::string bare(const std::string& name) {
  const auto colons = name.rfind("::");
  const std::string tail = colons == std::string::npos ? name : name.substr(colons + 2);
  return tail.substr(0, tail.find('.'));
}

double elements(const Shape& shape) {
  double product = 1;
  for (const double size : shape) product *= size;
  return product;
}

Shape parse_shape(const std::string& text, const CsvTable& table, const CsvCell& cell, ReadLog& log) {
  Shape shape;
  if (text == "scalar") return shape;
  std::istringstream sizes(text);
  for (std::string size; std::getline(sizes, size, 'x');) {
    const Parsed<double> parsed = parse_number(size);
    if (!parsed.value || *parsed.value < 0) {
      log.add(diagnostic_at(table, cell, fmt::format("'{}' is no shape; shapes are written 2x16x32, or scalar", text)));
      return {};
    }
    shape.push_back(*parsed.value);
  }
  return shape;
}

struct Shapes {
  std::vector<Shape> read, made;
};

Shapes parse_shapes(const CsvTable& table, const CsvCell& cell, ReadLog& log) {
  Shapes shapes;
  std::istringstream words(cell.text);
  bool made = false;
  for (std::string word; words >> word;) {
    if (word == "->")
      made = true;
    else
      (made ? shapes.made : shapes.read).push_back(parse_shape(word, table, cell, log));
  }
  return shapes;
}

// Two operations per element of the result and of the inner dimension, which ends the first matrix that is read.
double product_work(const Shapes& shapes) {
  for (const Shape& shape : shapes.read)
    if (shape.size() >= 2 && !shapes.made.empty()) return 2 * elements(shapes.made.front()) * shape.back();
  return 0;
}

// Two products of the head size per score, half of them under the mask.
double attention_work(const Shapes& shapes) {
  if (shapes.read.size() < 2 || shapes.read[0].size() < 2 || shapes.read[1].size() < 2) return 0;
  return 2 * elements(shapes.read[0]) * shapes.read[1][shapes.read[1].size() - 2];
}

void count(const Shapes& shapes, TimedOperator& op) {
  const std::string name = bare(op.name);
  if (among(kProducts, name)) {
    op.kind = OperatorKind::Product;
    op.work = product_work(shapes);
  } else if (name.rfind("scaled_dot_product", 0) == 0) {
    op.kind = OperatorKind::Attention;
    op.work = attention_work(shapes);
  } else if (among(kViews, name)) {
    op.kind = OperatorKind::View;
  } else if (!among(kOthers, name)) {
    op.kind = OperatorKind::Traffic;
    for (const auto* list : {&shapes.read, &shapes.made})
      for (const Shape& shape : *list)
        if (!shape.empty()) op.elements += elements(shape);
  }
}

double microseconds(const CsvTable& table, const CsvCell& cell, ReadLog& log) {
  const Parsed<double> parsed = parse_number(cell.text);
  if (!parsed.value) log.add(diagnostic_at(table, cell, parsed.problem));
  return parsed.value.value_or(0) * 1e-6;
}

constexpr std::array kColumns = {"unit", "operator", "shapes", "forward_us", "backward_us"};

}  // namespace

std::vector<TimedOperator> read_operators(const std::string& path) {
  const CsvTable table = load_csv(path);
  ReadLog log;
  std::array<std::size_t, kColumns.size()> at{};
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    const auto place = table.place_of(kColumns[c]);
    if (!place)
      log.add(diagnostic_at(table, table.heading.front(), fmt::format("the heading has no column '{}'", kColumns[c]),
                            "a table of operators is written by panpipe profile --operators FILE"));
    at[c] = place.value_or(0);
  }
  log.throw_if_errors();
  std::vector<TimedOperator> operators;
  for (const std::vector<CsvCell>& row : table.rows) {
    TimedOperator& op = operators.emplace_back();
    op.unit = row[at[0]].text;
    op.name = row[at[1]].text;
    count(parse_shapes(table, row[at[2]], log), op);
    op.forward_s = microseconds(table, row[at[3]], log);
    op.backward_s = microseconds(table, row[at[4]], log);
  }
  log.throw_if_errors();
  return operators;
}

bool is_operator_table(const std::string& path) {
  if (path.size() < 4 || path.compare(path.size() - 4, 4, ".csv") != 0) return false;
  try {
    return load_csv(path).place_of("forward_us").has_value();
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace panpipe::validation
