// Files of named tensors in the safetensors format: eight bytes with the header's length, a JSON header, raw little-endian data.
// The reader is strict: every byte belongs to exactly one tensor, and nothing is allocated that the file does not hold.
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
  // Reads the header. InputError naming the file and what is wrong with it; also when it cannot be opened.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A copy of one tensor, or of its rows [first, first + rows). InputError when the file has shrunk since.
  at::Tensor read(const std::string& name) const;
  at::Tensor read_rows(const std::string& name, std::int64_t first, std::int64_t rows) const;

 private:
  at::Tensor read_bytes(const std::string& name, std::vector<std::int64_t> shape, std::int64_t skip) const;

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

// A tensor that is made when its turn to be written comes, so that not all of them are in memory at once.
struct TensorToWrite {
  std::string name;
  at::ScalarType dtype{};
  std::vector<std::int64_t> shape;
  std::function<at::Tensor()> value;  // of that type and shape, on any device; called once
};

// Writes and flushes to the disk, one tensor after the other in the order given. MachineError with the reason ("No space left on
// device"), and what a tensor's value() throws; nothing is there then.
WrittenFile write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata = {});
// Of tensors that are there already, on any device.
WrittenFile write_safetensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata = {});

// SHA-256 of a file, in hexadecimal. InputError when it cannot be read.
std::string sha256_of_file(const std::string& path);

const char* safetensors_name(at::ScalarType dtype);  // "F32"; nullptr for a type the format has not

}  // namespace panpipe::exec
