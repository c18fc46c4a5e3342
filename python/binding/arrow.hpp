// Tables for data frames: columns behind the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html),
// which pandas, polars, pyarrow and DuckDB read without a copy. No Arrow library is needed.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace panpipe::python {

namespace nb = nanobind;

struct Utf8 {
  std::vector<std::int64_t> offsets = {0};
  std::string text;
  void add(std::string_view value) {
    text += value;
    offsets.push_back(static_cast<std::int64_t>(text.size()));
  }
};

struct Column {
  std::string name;
  std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<double>, std::vector<bool>, Utf8> values;
  std::vector<bool> known = {};         // empty: every value is known
  std::vector<std::uint8_t> bits = {};  // booleans packed as in Arrow; filled by Table
  std::vector<std::uint8_t> valid = {};
  std::int64_t unknown = 0;
};

struct Columns {
  std::vector<Column> columns;
  std::int64_t rows = 0;
};

class Table {
 public:
  explicit Table(Columns columns);  // all of the same length

  std::int64_t rows() const { return columns_->rows; }
  std::vector<std::string> names() const;
  nb::object stream(nb::object requested_schema) const;  // a PyCapsule "arrow_array_stream"
  nb::object schema() const;                             // a PyCapsule "arrow_schema"
  nb::dict to_dict() const;                              // name -> list

 private:
  std::shared_ptr<const Columns> columns_;
};

// name -> list of one type of value (int, float, bool, str), None if unknown.
Table table_of(const nb::dict& columns);

void bind_tables(nb::module_& module);

}  // namespace panpipe::python
