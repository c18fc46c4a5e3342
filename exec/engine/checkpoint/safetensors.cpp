#include "exec/engine/checkpoint/safetensors.hpp"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sha256.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "costmodel/base/error.hpp"
#include "costmodel/base/files_write.hpp"
#include "costmodel/base/inputs_kept.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

// Of the format's own definition: a longer header is refused before it is read.
constexpr std::int64_t kLongestHeader = 100'000'000;

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

[[noreturn]] void broken(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: not a whole safetensors file: {}", path, why));
}

std::shared_ptr<const int> open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  keep_input(path);
  return {new int(descriptor), [](const int* held) {
            ::close(*held);
            delete held;
          }};
}

// All of `bytes` from `offset`; false when the file ends before.
bool read_at(int file, std::int64_t offset, void* to, std::int64_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, out, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got, offset += got, bytes -= got;
  }
  return true;
}

json parse_header(const std::string& path, const std::string& text) {
  std::set<std::string> seen;
  const auto once = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second)
      broken(path, fmt::format("the header names '{}' twice", value.get<std::string>()));
    if (depth > 4) broken(path, "the header is nested too deeply");
    return true;
  };
  json header;
  try {
    header = json::parse(text, once);
  } catch (const json::exception&) {
    broken(path, "the header is not JSON");
  }
  if (!header.is_object()) broken(path, "the header is not an object");
  return header;
}

StoredTensor parse_entry(const std::string& path, const std::string& name, const json& entry, std::int64_t data,
                         std::int64_t data_bytes) {
  const auto bad = [&](const std::string& why) { broken(path, fmt::format("tensor '{}' {}", name, why)); };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    bad("does not have exactly dtype, shape and data_offsets");
  if (!entry["dtype"].is_string()) bad("has no dtype");
  const std::string type = entry["dtype"];
  const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return type == t.name; });
  if (known == kTypes.end()) bad(fmt::format("has the element type '{}', which is not read here", type));
  StoredTensor tensor;
  tensor.dtype = known->dtype;
  if (!entry["shape"].is_array() || entry["shape"].size() > 64) bad("has no shape");
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  for (const json& extent : entry["shape"]) {
    if (!extent.is_number_unsigned()) bad("has a shape that is not of whole numbers");
    const auto size = extent.get<std::uint64_t>();
    if (size > static_cast<std::uint64_t>(data_bytes)) bad("is larger than the file");
    tensor.shape.push_back(static_cast<std::int64_t>(size));
    if (__builtin_mul_overflow(bytes, tensor.shape.back(), &bytes)) bad("is larger than the file");
  }
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    bad("has no data_offsets");
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > static_cast<std::uint64_t>(data_bytes))
    bad(fmt::format("ends at byte {}, the data at {}", end, data_bytes));
  if (static_cast<std::int64_t>(end - begin) != bytes)
    bad(fmt::format("takes {} bytes by its shape and {} by its offsets", bytes, end - begin));
  tensor.offset = data + static_cast<std::int64_t>(begin);
  tensor.bytes = bytes;
  return tensor;
}

// Every byte of the data is one tensor's.
void check_cover(const std::string& path, const std::map<std::string, StoredTensor>& tensors, std::int64_t data,
                 std::int64_t file_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& [name, tensor] : tensors) ranges.emplace_back(tensor.offset, tensor.offset + tensor.bytes);
  std::sort(ranges.begin(), ranges.end());
  std::int64_t covered = data;
  for (const auto& [begin, end] : ranges) {
    if (begin < covered) broken(path, "tensors overlap");
    if (begin > covered) broken(path, "there are bytes between tensors that belong to none");
    covered = end;
  }
  if (covered != file_bytes) broken(path, fmt::format("{} bytes after the last tensor", file_bytes - covered));
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
  struct stat status {};
  if (::fstat(*file_, &status) != 0 || !S_ISREG(status.st_mode)) broken(path, "not a regular file");
  const std::int64_t file_bytes = status.st_size;
  std::uint64_t header_bytes = 0;
  if (file_bytes < 8 || !read_at(*file_, 0, &header_bytes, 8)) broken(path, "shorter than its first eight bytes");
  if (header_bytes > static_cast<std::uint64_t>(std::min(kLongestHeader, file_bytes - 8)))
    broken(path, fmt::format("a header of {} bytes in a file of {}", header_bytes, file_bytes));
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  if (!read_at(*file_, 8, text.data(), static_cast<std::int64_t>(header_bytes))) broken(path, "its end is missing");
  const json header = parse_header(path, text);
  const std::int64_t data = 8 + static_cast<std::int64_t>(header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      tensors_.emplace(name, parse_entry(path, name, entry, data, file_bytes - data));
      continue;
    }
    if (!entry.is_object()) broken(path, "__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) broken(path, "__metadata__ holds something other than text");
      metadata_.emplace(key, value.get<std::string>());
    }
  }
  check_cover(path, tensors_, data, file_bytes);
}

at::Tensor SafetensorsFile::read_bytes(const std::string& name, std::vector<std::int64_t> shape, std::int64_t skip) const {
  const StoredTensor& stored = tensors_.at(name);
  at::Tensor value = at::empty(shape, at::TensorOptions().dtype(stored.dtype));
  if (!read_at(*file_, stored.offset + skip, value.data_ptr(), static_cast<std::int64_t>(value.nbytes())))
    broken(path_, fmt::format("the data of '{}' end early", name));
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

WrittenFile write_safetensors(const std::string& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* type = safetensors_name(tensor.scalar_type());
    PANPIPE_CHECK(type != nullptr, fmt::format("'{}' has an element type that cannot be stored", name));
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    header[name] = {{"dtype", type}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data start on a multiple of eight
  HashedWriter writer(path);
  const std::uint64_t header_bytes = text.size();
  writer.write(&header_bytes, 8);
  writer.write(text.data(), static_cast<std::int64_t>(text.size()));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor value = tensor.detach().to(at::kCPU).contiguous();
    writer.write(value.data_ptr(), static_cast<std::int64_t>(value.nbytes()));
  }
  return writer.finish();
}

std::string sha256_of_file(const std::string& path) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  if (SHA256File(path.c_str(), digest.data()) == nullptr)
    throw InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return digest.data();
}

}  // namespace panpipe::exec
