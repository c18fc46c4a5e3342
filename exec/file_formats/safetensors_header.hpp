// The header of a file in the safetensors format: eight bytes with the header's length, a JSON header, raw little-endian data.
// Strict: every byte belongs to exactly one tensor, and nothing is allocated that the file does not hold. Without LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace panpipe::exec {

struct HeaderTensor {
  std::string type;  // one that safetensors_element_bytes knows: "F32"
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, bytes = 0;  // in the file
};

struct SafetensorsHeader {
  std::map<std::string, HeaderTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// `file` is the descriptor of `path`, open for reading. InputError naming the file and what is wrong with it.
SafetensorsHeader read_safetensors_header(int file, const std::string& path);

// Bytes of an element of this type; 0 for a type that is not read here.
int safetensors_element_bytes(const std::string& type);

// All of `bytes` from `offset`; false when the file ends before.
bool read_bytes_at(int file, std::int64_t offset, void* to, std::int64_t bytes);

[[noreturn]] void throw_broken_safetensors(const std::string& path, const std::string& why);

}  // namespace panpipe::exec
