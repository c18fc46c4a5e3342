// The file positions of an archive's parameters, buffers and constants. Internal to this folder.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "costmodel/workload/archive_container.hpp"
#include "costmodel/workload/archive_json.hpp"
#include "costmodel/workload/graph.hpp"

namespace panpipe {

// A tensor's description in the archive, with symbolic sizes replaced by the sizes of the exported microbatch.
struct ArchiveTensor {
  DType dtype{};
  Shape shape;
  Shape strides;
  std::int64_t first_element = 0;
  bool requires_gradient = false;
};

// Maps the archive's number of an element type; nullopt if unsupported.
std::optional<DType> archive_dtype(std::int64_t number);
std::string archive_dtype_name(std::int64_t number);  // "float8_e5m2", "type 77"

// Throws InputError for invalid descriptions. Sets `why` instead if the tensor is valid but unsupported.
ArchiveTensor read_tensor_meta(const ArchiveDocument& document, const Json& meta, const std::string& where, std::string& why);

struct Payload {
  ArchiveTensor tensor;
  StoredValues values;
  std::string entry;        // tied tensors share it
  std::string unsupported;  // reason why its values cannot be used; empty if they can
};

// By name of the parameter, buffer or constant.
std::map<std::string, Payload> read_payloads(ArchiveContainer& archive, const std::string& folder, const std::string& config);

}  // namespace panpipe
