// The header of a safetensors file: eight bytes with the header's length, a JSON header, raw little-endian data. Strict: every
// byte belongs to exactly one tensor, and allocations never exceed the file's size. Without LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace panpipe::exec {

struct HeaderTensor {
  std::string type;  // a type known to safetensors_element_bytes: "F32"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, bytes = 0;  // in the file
};

struct SafetensorsHeader {
  std::map<std::string, HeaderTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// `file` is the descriptor of `path`, open for reading. Throws InputError with the file's name and the fault.
SafetensorsHeader read_safetensors_header(int file, const std::string& path);

// Bytes per element of this type; 0 for an unsupported type.
int safetensors_element_bytes(const std::string& type);

// Reads all `bytes` from `offset`; returns false if the file ends earlier.
bool read_bytes_at(int file, std::int64_t offset, void* to, std::int64_t bytes);

[[noreturn]] void throw_broken_safetensors(const std::string& path, const std::string& why);

}  // namespace panpipe::exec
