#include "python/binding/arrow.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>
#include <utility>

// --- the interface: two structs and a stream of them, as the specification states them ---
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
}

namespace panpipe::python {
namespace {

using Shared = std::shared_ptr<const std::vector<Column>>;

constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

// What a schema or an array holds. Each child is released by its parent, or by the consumer that moved it away.
template <class Struct>
struct Owner {
  Shared columns;
  std::vector<Struct> children = {};
  std::vector<Struct*> pointers = {};
  std::array<const void*, 3> buffers = {};

  std::int64_t point_to_children() {
    for (Struct& child : children) pointers.push_back(&child);
    return static_cast<std::int64_t>(children.size());
  }
};

template <class Struct>
void release(Struct* held) {
  auto* owner = static_cast<Owner<Struct>*>(held->private_data);
  for (Struct& child : owner->children)
    if (child.release != nullptr) child.release(&child);
  delete owner;
  held->release = nullptr;
}

void export_schema(const Shared& columns, ArrowSchema* out) {
  auto* owner = new Owner<ArrowSchema>{columns};
  for (const Column& column : *columns)
    owner->children.push_back({column.format, column.name.c_str(), nullptr, column.unknown > 0 ? kNullable : 0, 0, nullptr,
                               nullptr, release<ArrowSchema>, new Owner<ArrowSchema>{columns}});
  const std::int64_t count = owner->point_to_children();
  *out = {"+s", "", nullptr, 0, count, owner->pointers.data(), nullptr, release<ArrowSchema>, owner};
}

ArrowArray export_column(const Shared& columns, const Column& column) {
  auto* owner = new Owner<ArrowArray>{columns};
  const bool text = column.format == kText;
  owner->buffers = {column.unknown > 0 ? column.valid.data() : nullptr, column.data.data(), column.data.data()};
  if (text) owner->buffers[1] = column.offsets.data();
  return {column.rows, column.unknown, 0, text ? 3 : 2, 0, owner->buffers.data(), nullptr, nullptr, release<ArrowArray>, owner};
}

void export_array(const Shared& columns, std::int64_t rows, ArrowArray* out) {
  auto* owner = new Owner<ArrowArray>{columns};
  for (const Column& column : *columns) owner->children.push_back(export_column(columns, column));
  const std::int64_t count = owner->point_to_children();
  *out = {rows, 0, 0, 1, count, owner->buffers.data(), owner->pointers.data(), nullptr, release<ArrowArray>, owner};
}

// --- a stream of one batch ---
struct StreamOwner {
  Shared columns;
  std::int64_t rows;
  bool done = false;
};

int next_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  export_schema(static_cast<StreamOwner*>(stream->private_data)->columns, out);
  return 0;
}

int next_array(ArrowArrayStream* stream, ArrowArray* out) {
  auto* owner = static_cast<StreamOwner*>(stream->private_data);
  if (owner->done)
    *out = {};
  else
    export_array(owner->columns, owner->rows, out);
  owner->done = true;
  return 0;
}

void release_stream(ArrowArrayStream* stream) {
  delete static_cast<StreamOwner*>(stream->private_data);
  stream->release = nullptr;
}

// The capsule owns the struct; a consumer that takes its content over clears `release`.
template <class Struct>
void end_capsule(PyObject* capsule) {
  auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  if (held->release != nullptr) held->release(held);
  delete held;
}

template <class Value>
Value number_at(const Column& column, std::size_t row) {
  Value value;
  std::memcpy(&value, column.data.data() + row * sizeof value, sizeof value);
  return value;
}

bool bit_at(const std::vector<std::uint8_t>& bits, std::size_t row) { return (bits[row / 8] >> row % 8 & 1) != 0; }

nb::object value_at(const Column& column, std::size_t row) {
  if (!bit_at(column.valid, row)) return nb::none();
  if (column.format == kText) {
    const auto begin = static_cast<std::size_t>(column.offsets[row]), end = static_cast<std::size_t>(column.offsets[row + 1]);
    return nb::str(reinterpret_cast<const char*>(column.data.data()) + begin, end - begin);
  }
  if (column.format == kTruth) return nb::bool_(bit_at(column.data, row));
  if (column.format == kInt32) return nb::int_(number_at<std::int32_t>(column, row));
  if (column.format == kInt64) return nb::int_(number_at<std::int64_t>(column, row));
  return nb::float_(number_at<double>(column, row));
}

// One text makes all of them texts, one double among whole numbers all of them doubles.
const char* format_of(const nb::list& list) {
  bool text = false, real = false, truth = false, whole = false;
  for (nb::handle item : list) {
    text = text || nb::isinstance<nb::str>(item);
    truth = truth || nb::isinstance<nb::bool_>(item);
    real = real || nb::isinstance<nb::float_>(item);
    whole = whole || (nb::isinstance<nb::int_>(item) && !nb::isinstance<nb::bool_>(item));
  }
  return text ? kText : truth && !whole && !real ? kTruth : whole && !real ? kInt64 : kDouble;
}

Column column_of_list(const std::string& name, const nb::list& list) {
  Column column{name, format_of(list)};
  for (nb::handle item : list) {
    const bool known = !item.is_none();
    if (column.format == kText)
      column.add(known ? nb::cast<std::string>(item) : std::string(), known);
    else if (column.format == kTruth)
      column.add(known && nb::cast<bool>(item), known);
    else if (column.format == kInt64)
      column.add(known ? nb::cast<std::int64_t>(item) : std::int64_t{0}, known);
    else
      column.add(known ? PyFloat_AsDouble(item.ptr()) : 0.0, known);
  }
  return column;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::make_shared<const std::vector<Column>>(std::move(columns))) {}

std::vector<std::string> Table::names() const {
  std::vector<std::string> names;
  for (const Column& column : *columns_) names.push_back(column.name);
  return names;
}

nb::object Table::stream(nb::object) const {
  auto* stream = new ArrowArrayStream{next_schema, next_array, [](ArrowArrayStream*) -> const char* { return nullptr; },
                                      release_stream, new StreamOwner{columns_, rows()}};
  return nb::steal(PyCapsule_New(stream, "arrow_array_stream", end_capsule<ArrowArrayStream>));
}

nb::object Table::schema() const {
  auto* schema = new ArrowSchema;
  export_schema(columns_, schema);
  return nb::steal(PyCapsule_New(schema, "arrow_schema", end_capsule<ArrowSchema>));
}

nb::dict Table::to_dict() const {
  nb::dict dict;
  for (const Column& column : *columns_) {
    nb::list list;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows()); ++row) list.append(value_at(column, row));
    dict[column.name.c_str()] = list;
  }
  return dict;
}

Table table_of(const nb::dict& columns) {
  std::vector<Column> made;
  for (const auto& [name, list] : columns) made.push_back(column_of_list(nb::cast<std::string>(name), nb::list(list)));
  return Table(std::move(made));
}

void bind_tables(nb::module_& module) {
  nb::class_<Table>(module, "Table",
                    "Columns of one length. pandas, polars, pyarrow and DuckDB read it through the Arrow PyCapsule interface "
                    "without a copy.")
      .def("__len__", &Table::rows)
      .def_prop_ro("num_rows", &Table::rows, "Number of rows.")
      .def_prop_ro("column_names", &Table::names, "Names of the columns.")
      .def("to_pydict", &Table::to_dict, "The columns as lists: name -> values.")
      .def("__arrow_c_stream__", &Table::stream, nb::arg("requested_schema").none() = nb::none(),
           "The table as a stream of one batch.")
      .def("__arrow_c_schema__", &Table::schema, "The names and types of the columns.")
      .def("__reduce__",
           [](const Table& table) {
             return nb::make_tuple(nb::module_::import_("panpipe._work").attr("table"), nb::make_tuple(table.to_dict()));
           })
      .def("__repr__", [](const Table& table) {
        std::string names;
        for (const std::string& name : table.names()) names += (names.empty() ? "" : ", ") + name;
        return fmt::format("<panpipe.Table: {} rows; {}>", table.rows(), names);
      });
  module.def("table_of", &table_of, nb::arg("columns"),
             "A table of columns: name -> list of int, float, bool or str; None: unknown.");
}

}  // namespace panpipe::python
