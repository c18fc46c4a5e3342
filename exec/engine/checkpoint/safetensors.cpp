#include "exec/engine/checkpoint/safetensors.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sha256.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/files/input_registry.hpp"
#include "exec/engine/device.hpp"
#include "exec/file_formats/safetensors_header.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

struct TypeName {
  at::ScalarType dtype;
  const char* name;
};
constexpr std::array<TypeName, 10> kTypes = {{{at::kFloat, "F32"},
                                              {at::kHalf, "F16"},
                                              {at::kBFloat16, "BF16"},
                                              {at::kDouble, "F64"},
                                              {at::kLong, "I64"},
                                              {at::kInt, "I32"},
                                              {at::kShort, "I16"},
                                              {at::kChar, "I8"},
                                              {at::kByte, "U8"},
                                              {at::kBool, "BOOL"}}};

std::shared_ptr<const int> open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  register_input(path);
  return {new int(descriptor), [](const int* held) {
            ::close(*held);
            delete held;
          }};
}

// A file that is written and hashed at once.
class HashedWriter {
 public:
  explicit HashedWriter(const std::string& path) : path_(path), file_(path) { SHA256Init(&hash_); }

  void write(const void* data, std::int64_t bytes) {
    SHA256Update(&hash_, static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(bytes));
    bytes_ += bytes;
    file_.write(data, static_cast<std::size_t>(bytes));
  }

  WrittenFile finish() {
    file_.finish(true);
    std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
    SHA256End(&hash_, digest.data());
    return {std::filesystem::path(path_).filename().string(), bytes_, digest.data()};
  }

 private:
  std::string path_;
  OutputFile file_;
  SHA2_CTX hash_{};
  std::int64_t bytes_ = 0;
};

}  // namespace

const char* safetensors_name(at::ScalarType dtype) {
  for (const TypeName& type : kTypes)
    if (type.dtype == dtype) return type.name;
  return nullptr;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(open_file(path)) {
  SafetensorsHeader header = read_safetensors_header(*file_, path);
  for (auto& [name, stored] : header.tensors) {
    const auto known =
        std::find_if(kTypes.begin(), kTypes.end(), [&type = stored.type](const TypeName& t) { return type == t.name; });
    PANPIPE_CHECK(known != kTypes.end(), "every element type that the header may name is one of LibTorch");
    tensors_.emplace(name, StoredTensor{known->dtype, std::move(stored.shape), stored.offset, stored.bytes});
  }
  metadata_ = std::move(header.metadata);
}

at::Tensor SafetensorsFile::read_bytes(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t skip) const {
  const StoredTensor& stored = tensors_.at(name);
  at::Tensor value = at::empty(shape, at::TensorOptions().dtype(stored.dtype));
  if (!read_bytes_at(*file_, stored.offset + skip, value.data_ptr(), static_cast<std::int64_t>(value.nbytes())))
    throw_broken_safetensors(path_, fmt::format("the data of '{}' end early", name));
  return value;
}

at::Tensor SafetensorsFile::read(const std::string& name) const { return read_bytes(name, tensors_.at(name).shape, 0); }

at::Tensor SafetensorsFile::read_rows(const std::string& name, std::int64_t first, std::int64_t rows) const {
  const StoredTensor& stored = tensors_.at(name);
  PANPIPE_CHECK(!stored.shape.empty() && first >= 0 && rows >= 0 && first + rows <= stored.shape[0], "rows of the tensor");
  std::vector<std::int64_t> shape = stored.shape;
  shape[0] = rows;
  return read_bytes(name, shape, stored.shape[0] == 0 ? 0 : stored.bytes / stored.shape[0] * first);
}

WrittenFile write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const char* type = safetensors_name(tensor.dtype);
    PANPIPE_CHECK(type != nullptr, fmt::format("'{}' has an element type that cannot be stored", tensor.name));
    const std::int64_t bytes = c10::multiply_integers(tensor.shape) * static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
    header[tensor.name] = {{"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data start on a multiple of eight
  HashedWriter writer(path);
  const std::uint64_t header_bytes = text.size();
  writer.write(&header_bytes, 8);
  writer.write(text.data(), static_cast<std::int64_t>(text.size()));
  for (const TensorToWrite& tensor : tensors) {
    const at::Tensor value = on_host(tensor.value());
    PANPIPE_CHECK(value.scalar_type() == tensor.dtype && value.sizes() == at::IntArrayRef(tensor.shape), tensor.name);
    writer.write(value.data_ptr(), static_cast<std::int64_t>(value.nbytes()));
  }
  return writer.finish();
}

WrittenFile write_safetensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<TensorToWrite> to_write;
  for (const auto& [name, tensor] : tensors)
    to_write.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), [tensor = tensor] { return tensor; }});
  return write_safetensors(path, to_write, metadata);
}

std::string sha256_of_file(const std::string& path) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  if (SHA256File(path.c_str(), digest.data()) == nullptr)
    throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return digest.data();
}

}  // namespace panpipe::exec
