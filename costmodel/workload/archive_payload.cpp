#include "costmodel/workload/archive_payload.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace panpipe {
namespace {

constexpr std::int64_t kMostConfig = 256 << 20;    // bytes of a list of payloads
constexpr std::size_t kMostDimensions = 64;        // PyTorch's own limit is 64 in most operators
constexpr std::int64_t kMostElements = 1LL << 48;  // keeps every byte count within 64 bits
constexpr std::int64_t kMostExtent = 1LL << 48;

// torch/_export/serde/schema.py, ScalarType: one more than c10's numbers up to bool, then its own.
struct ArchiveType {
  std::int64_t number;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr std::array<ArchiveType, 18> kTypes{{
    {1, "uint8", DType::UInt8},
    {2, "int8", DType::Int8},
    {3, "int16", DType::Int16},
    {4, "int32", DType::Int32},
    {5, "int64", DType::Int64},
    {6, "float16", DType::Float16},
    {7, "float32", DType::Float32},
    {8, "float64", DType::Float64},
    {9, "complex32", std::nullopt},
    {10, "complex64", DType::Complex64},
    {11, "complex128", std::nullopt},
    {12, "bool", DType::Bool},
    {13, "bfloat16", DType::BFloat16},
    {28, "uint16", std::nullopt},
    {29, "float8_e4m3fn", std::nullopt},
    {30, "float8_e5m2", std::nullopt},
    {31, "float8_e4m3fnuz", std::nullopt},
    {32, "float8_e5m2fnuz", std::nullopt},
}};
constexpr std::int64_t kStrided = 7;

// A size: a number, or an expression over symbols with the value it had for the exported microbatch.
std::int64_t size_value(const ArchiveDocument& document, const Json& size, const std::string& where, std::string& why) {
  const auto [tag, value] = document.tagged(size, where);
  if (tag == "as_int") return document.integer(*value, where);
  if (tag != "as_expr") document.fault(fmt::format("{} is neither a number nor an expression", where));
  const Json* hint = document.find(*value, "hint");
  const Json* known = hint ? document.find(*hint, "as_int") : nullptr;
  if (known) return document.integer(*known, where);
  why = fmt::format("its size {} depends on the data", document.text(*value, "expr_str", where));
  return 1;
}

Shape sizes_of(const ArchiveDocument& document, const Json& meta, const char* key, const std::string& where, std::string& why) {
  const Json& sizes = document.list(meta, key, where);
  if (sizes.size() > kMostDimensions) document.fault(fmt::format("{} has {} dimensions", where, sizes.size()));
  Shape shape;
  for (const Json& size : sizes) {
    shape.push_back(size_value(document, size, fmt::format("'{}' of {}", key, where), why));
    if (shape.back() < 0 || shape.back() > kMostExtent)
      document.fault(fmt::format("'{}' of {} holds {}", key, where, shape.back()));
  }
  return shape;
}

}  // namespace

std::optional<DType> archive_dtype(std::int64_t number) {
  for (const ArchiveType& type : kTypes)
    if (type.number == number) return type.dtype;
  return std::nullopt;
}

std::string archive_dtype_name(std::int64_t number) {
  for (const ArchiveType& type : kTypes)
    if (type.number == number) return std::string(type.name);
  return fmt::format("number {}", number);
}

ArchiveTensor read_tensor_meta(const ArchiveDocument& document, const Json& meta, const std::string& where, std::string& why) {
  ArchiveTensor tensor;
  tensor.shape = sizes_of(document, meta, "sizes", where, why);
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent > 0 && elements > kMostElements / extent) document.fault(fmt::format("{} has more than 2^48 elements", where));
    elements *= extent;
  }
  tensor.strides = sizes_of(document, meta, "strides", where, why);
  if (tensor.strides.size() != tensor.shape.size())
    document.fault(fmt::format("{} has {} sizes and {} strides", where, tensor.shape.size(), tensor.strides.size()));
  tensor.first_element = size_value(document, document.member(meta, "storage_offset", where), where, why);
  if (tensor.first_element < 0 || tensor.first_element > kMostElements)
    document.fault(fmt::format("{} begins at element {}", where, tensor.first_element));
  const Json* gradient = document.find(meta, "requires_grad");
  tensor.requires_gradient = gradient && document.boolean(*gradient, fmt::format("'requires_grad' of {}", where));
  const std::int64_t type = document.integer(document.member(meta, "dtype", where), fmt::format("'dtype' of {}", where));
  if (const auto known = archive_dtype(type))
    tensor.dtype = *known;
  else
    why = fmt::format("its element type ({}) is not supported", archive_dtype_name(type));
  if (document.integer(document.member(meta, "layout", where), fmt::format("'layout' of {}", where)) != kStrided)
    why = "it is a sparse tensor; make it dense before exporting";
  return tensor;
}

std::map<std::string, Payload> read_payloads(ArchiveContainer& archive, const std::string& folder, const std::string& config) {
  const std::string name = folder + config;
  const ArchiveDocument document(archive.path(), name, archive.read(name, kMostConfig));
  std::map<std::string, Payload> payloads;
  for (const auto& [key, value] : document.object(document.root(), "config", "the document").items()) {
    const std::string where = fmt::format("'{}'", key);
    Payload payload;
    payload.entry = folder + document.text(value, "path_name", where);
    const Json* pickled = document.find(value, "use_pickle");
    if (pickled && document.boolean(*pickled, fmt::format("'use_pickle' of {}", where))) {
      payload.unsupported =
          "its value is stored as a Python pickle, which could run code and is never read; store a plain tensor";
      payloads.emplace(key, std::move(payload));
      continue;
    }
    payload.tensor = read_tensor_meta(document, document.member(value, "tensor_meta", where), where, payload.unsupported);
    const ArchiveEntry* entry = archive.find(payload.entry);
    if (!entry) document.fault(fmt::format("{} should be in '{}', which the archive does not hold", where, payload.entry));
    payload.values = {entry->offset, entry->bytes, payload.tensor.first_element, payload.tensor.strides};
    // The last element that is read must lie inside the entry. Sizes and strides are at most 2^48, so doubles are exact enough
    // to refuse what would overflow.
    double last = static_cast<double>(payload.tensor.first_element);
    bool empty = false;
    for (std::size_t d = 0; d < payload.tensor.shape.size(); ++d) {
      empty |= payload.tensor.shape[d] == 0;
      last += static_cast<double>(payload.tensor.shape[d] - 1) * static_cast<double>(payload.tensor.strides[d]);
    }
    const double needed = (last + 1) * static_cast<double>(size_of(payload.tensor.dtype).base());
    if (payload.unsupported.empty() && !empty && needed > static_cast<double>(entry->bytes))
      document.fault(fmt::format("{} needs {:.0f} bytes of '{}', which has {}", where, needed, payload.entry, entry->bytes));
    payloads.emplace(key, std::move(payload));
  }
  return payloads;
}

}  // namespace panpipe
