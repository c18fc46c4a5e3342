// Tables for data frames: columns behind the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html),
// which pandas, polars, pyarrow and DuckDB read without a copy. No Arrow library is needed: of this writer nanoarrow would
// replace 150 lines by 80, and bring 200 kB of C along, because Debian has no package of it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace panpipe::python {

namespace nb = nanobind;

// A column as Arrow lays it out. Values are added in the C++ type of its format.
struct Column {
  std::string name;
  const char* format;                       // of Arrow's: kInt32, kInt64, kDouble, kTruth, kText
  std::vector<std::uint8_t> data = {};      // truths as bits; texts one behind the other
  std::vector<std::uint8_t> valid = {};     // a bit for each row
  std::vector<std::int64_t> offsets = {0};  // of texts
  std::int64_t rows = 0, unknown = 0;

  template <class Value>
  void add(const Value& value, bool known = true) {
    if constexpr (std::is_same_v<Value, bool>) {
      add_bit(data, value);
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      const std::string_view text = value;
      data.insert(data.end(), text.begin(), text.end());
      offsets.push_back(static_cast<std::int64_t>(data.size()));
    } else {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
      data.insert(data.end(), bytes, bytes + sizeof value);
    }
    add_bit(valid, known);
    unknown += known ? 0 : 1;
    ++rows;
  }

 private:
  void add_bit(std::vector<std::uint8_t>& bits, bool value) const {
    if (rows % 8 == 0) bits.push_back(0);
    if (value) bits.back() = static_cast<std::uint8_t>(bits.back() | 1U << rows % 8);
  }
};
// Arrays, so that every file compares the same address.
inline constexpr char kInt32[] = "i", kInt64[] = "l", kDouble[] = "g", kTruth[] = "b", kText[] = "U";

class Table {
 public:
  explicit Table(std::vector<Column> columns);  // all of the same length

  std::int64_t rows() const { return columns_->empty() ? 0 : columns_->front().rows; }
  std::vector<std::string> names() const;
  nb::object stream(nb::object requested_schema) const;  // a PyCapsule "arrow_array_stream"
  nb::object schema() const;                             // a PyCapsule "arrow_schema"
  nb::dict to_dict() const;                              // name -> list

 private:
  std::shared_ptr<const std::vector<Column>> columns_;
};

// name -> list of one type of value (int, float, bool, str), None if unknown.
Table table_of(const nb::dict& columns);

void bind_tables(nb::module_& module);

}  // namespace panpipe::python
