// Files of named tensors in the safetensors format: eight bytes with the header's length, a JSON header, raw little-endian data.
// The reader is strict: every byte belongs to exactly one tensor, and allocations never exceed the file's size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace panpipe::exec {

struct StoredTensor {
  at::ScalarType dtype{};
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0, bytes = 0;  // in the file
};

class SafetensorsFile {
 public:
  // Reads the header. Throws InputError with the file's name and the fault, also if the file cannot be opened.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A copy of one tensor, or of its rows [first, first + rows). Throws InputError if the file has shrunk since.
  at::Tensor read(const std::string& name) const;
  at::Tensor read_rows(const std::string& name, std::int64_t first, std::int64_t rows) const;

 private:
  at::Tensor read_bytes(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t skip) const;

  std::string path_;
  std::shared_ptr<const int> file_;  // descriptor, closed by the last copy
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct WrittenFile {
  std::string name;  // without folder
  std::int64_t bytes = 0;
  std::string sha256;
};

// A tensor that is created only when it is written, so that not all tensors are in memory at once.
struct TensorToWrite {
  std::string name;
  at::ScalarType dtype{};
  std::vector<std::int64_t> shape;
  std::function<at::Tensor()> value;  // of that type and shape, on any device; called once
};

// Writes the tensors in the given order and flushes them to the disk. Throws MachineError with the reason ("No space left on
// device"), and any exception of value(); no file remains then.
WrittenFile write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata = {});
// The same for existing tensors, on any device.
WrittenFile write_safetensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// SHA-256 of a file, in hexadecimal. Throws InputError if it cannot be read.
std::string sha256_of_file(const std::string& path);

const char* safetensors_name(at::ScalarType dtype);  // "F32"; nullptr for a type that the format lacks

}  // namespace panpipe::exec
