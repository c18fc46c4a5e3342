#include "python/binding/arrow.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
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

using Shared = std::shared_ptr<const Columns>;
constexpr std::int64_t kNullable = 2;  // ARROW_FLAG_NULLABLE

constexpr std::array<const char*, 5> kFormats = {"i", "l", "g", "b", "U"};  // in the order of Column::values

std::vector<std::uint8_t> packed(const std::vector<bool>& truths) {
  std::vector<std::uint8_t> bytes((truths.size() + 7) / 8, 0);
  for (std::size_t i = 0; i < truths.size(); ++i)
    if (truths[i]) bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | 1U << i % 8);
  return bytes;
}

// --- schemas: each child is released by its parent, or by the consumer that moved it away ---
struct SchemaOwner {
  Shared columns;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
};

void release_child_schema(ArrowSchema* schema) {
  delete static_cast<Shared*>(schema->private_data);
  schema->release = nullptr;
}

void release_schema(ArrowSchema* schema) {
  auto* owner = static_cast<SchemaOwner*>(schema->private_data);
  for (ArrowSchema& child : owner->children)
    if (child.release != nullptr) child.release(&child);
  delete owner;
  schema->release = nullptr;
}

void export_schema(const Shared& columns, ArrowSchema* out) {
  auto* owner = new SchemaOwner{columns, {}, {}};
  for (const Column& column : columns->columns)
    owner->children.push_back({kFormats[column.values.index()], column.name.c_str(), nullptr, column.unknown > 0 ? kNullable : 0,
                               0, nullptr, nullptr, release_child_schema, new Shared(columns)});
  for (ArrowSchema& child : owner->children) owner->pointers.push_back(&child);
  *out = {"+s",           "",   nullptr, 0, static_cast<std::int64_t>(owner->children.size()), owner->pointers.data(), nullptr,
          release_schema, owner};
}

// --- arrays ---
struct ChildOwner {
  Shared columns;
  std::array<const void*, 3> buffers{};
};
struct ArrayOwner {
  Shared columns;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  std::array<const void*, 1> buffers{};
};

void release_child(ArrowArray* array) {
  delete static_cast<ChildOwner*>(array->private_data);
  array->release = nullptr;
}

void release_array(ArrowArray* array) {
  auto* owner = static_cast<ArrayOwner*>(array->private_data);
  for (ArrowArray& child : owner->children)
    if (child.release != nullptr) child.release(&child);
  delete owner;
  array->release = nullptr;
}

ArrowArray export_column(const Shared& columns, const Column& column) {
  auto* owner = new ChildOwner{columns, {}};
  owner->buffers[0] = column.unknown > 0 ? column.valid.data() : nullptr;
  std::int64_t buffers = 2;
  if (const auto* text = std::get_if<Utf8>(&column.values)) {
    owner->buffers[1] = text->offsets.data();
    owner->buffers[2] = text->text.data();
    buffers = 3;
  } else if (std::holds_alternative<std::vector<bool>>(column.values)) {
    owner->buffers[1] = column.bits.data();
  } else if (const auto* whole = std::get_if<std::vector<std::int32_t>>(&column.values)) {
    owner->buffers[1] = whole->data();
  } else if (const auto* large = std::get_if<std::vector<std::int64_t>>(&column.values)) {
    owner->buffers[1] = large->data();
  } else {
    owner->buffers[1] = std::get<std::vector<double>>(column.values).data();
  }
  return {columns->rows, column.unknown, 0, buffers, 0, owner->buffers.data(), nullptr, nullptr, release_child, owner};
}

void export_array(const Shared& columns, ArrowArray* out) {
  auto* owner = new ArrayOwner{columns, {}, {}, {}};
  for (const Column& column : columns->columns) owner->children.push_back(export_column(columns, column));
  for (ArrowArray& child : owner->children) owner->pointers.push_back(&child);
  *out = {columns->rows,
          0,
          0,
          1,
          static_cast<std::int64_t>(owner->children.size()),
          owner->buffers.data(),
          owner->pointers.data(),
          nullptr,
          release_array,
          owner};
}

// --- a stream of one batch ---
struct StreamOwner {
  Shared columns;
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
    export_array(owner->columns, out);
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
std::size_t size_of(const std::vector<Value>& values) {
  return values.size();
}
std::size_t size_of(const Utf8& values) { return values.offsets.size() - 1; }

nb::object value_at(const Column& column, std::size_t row) {
  if (!column.known.empty() && !column.known[row]) return nb::none();
  return std::visit(
      [&](const auto& values) -> nb::object {
        using Values = std::decay_t<decltype(values)>;
        if constexpr (std::is_same_v<Values, Utf8>) {
          const auto begin = static_cast<std::size_t>(values.offsets[row]);
          return nb::str(values.text.data() + begin, static_cast<std::size_t>(values.offsets[row + 1]) - begin);
        } else if constexpr (std::is_same_v<Values, std::vector<double>>) {
          return nb::float_(values[row]);
        } else if constexpr (std::is_same_v<Values, std::vector<bool>>) {
          return nb::bool_(static_cast<bool>(values[row]));
        } else {
          return nb::int_(values[row]);
        }
      },
      column.values);
}

// The kind of the first value that is known: one double among whole numbers makes them all doubles.
template <class Values>
Column column_of(const std::string& name, const nb::list& list) {
  Column column{name, Values{}};
  auto& values = std::get<Values>(column.values);
  bool all = true;
  for (nb::handle item : list) {
    column.known.push_back(!item.is_none());
    all = all && column.known.back();
    if constexpr (std::is_same_v<Values, Utf8>)
      values.add(column.known.back() ? nb::cast<std::string>(item) : std::string());
    else if constexpr (std::is_same_v<Values, std::vector<double>>)
      values.push_back(column.known.back() ? PyFloat_AsDouble(item.ptr()) : 0.0);
    else
      values.push_back(column.known.back() ? nb::cast<typename Values::value_type>(item) : typename Values::value_type{});
  }
  if (all) column.known.clear();
  return column;
}

Column column_of_list(const std::string& name, const nb::list& list) {
  bool text = false, real = false, truth = false, whole = false;
  for (nb::handle item : list) {
    text = text || nb::isinstance<nb::str>(item);
    truth = truth || nb::isinstance<nb::bool_>(item);
    real = real || nb::isinstance<nb::float_>(item);
    whole = whole || (nb::isinstance<nb::int_>(item) && !nb::isinstance<nb::bool_>(item));
  }
  if (text) return column_of<Utf8>(name, list);
  if (truth && !whole && !real) return column_of<std::vector<bool>>(name, list);
  if (whole && !real) return column_of<std::vector<std::int64_t>>(name, list);
  return column_of<std::vector<double>>(name, list);
}

}  // namespace

Table::Table(Columns columns) {
  for (Column& column : columns.columns) {
    columns.rows = static_cast<std::int64_t>(std::visit([](const auto& values) { return size_of(values); }, column.values));
    if (const auto* truths = std::get_if<std::vector<bool>>(&column.values)) column.bits = packed(*truths);
    column.valid = packed(column.known);
    for (const bool known : column.known) column.unknown += known ? 0 : 1;
  }
  columns_ = std::make_shared<const Columns>(std::move(columns));
}

std::vector<std::string> Table::names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_->columns) names.push_back(column.name);
  return names;
}

nb::object Table::stream(nb::object) const {
  auto* stream = new ArrowArrayStream{next_schema, next_array, [](ArrowArrayStream*) -> const char* { return nullptr; },
                                      release_stream, new StreamOwner{columns_}};
  return nb::steal(PyCapsule_New(stream, "arrow_array_stream", end_capsule<ArrowArrayStream>));
}

nb::object Table::schema() const {
  auto* schema = new ArrowSchema;
  export_schema(columns_, schema);
  return nb::steal(PyCapsule_New(schema, "arrow_schema", end_capsule<ArrowSchema>));
}

nb::dict Table::to_dict() const {
  nb::dict dict;
  for (const Column& column : columns_->columns) {
    nb::list list;
    for (std::size_t row = 0; row < static_cast<std::size_t>(columns_->rows); ++row) list.append(value_at(column, row));
    dict[column.name.c_str()] = list;
  }
  return dict;
}

Table table_of(const nb::dict& columns) {
  Columns made;
  for (const auto& [name, list] : columns) made.columns.push_back(column_of_list(nb::cast<std::string>(name), nb::list(list)));
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
