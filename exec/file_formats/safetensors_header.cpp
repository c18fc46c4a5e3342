#include "exec/file_formats/safetensors_header.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/input/json_input.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

// A limit of the format's own definition: a longer header is refused before it is read.
constexpr std::int64_t kLongestHeader = 100'000'000;

constexpr std::array<std::pair<const char*, int>, 10> kTypes = {
    {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1}, {"U8", 1}, {"BOOL", 1}}};

[[noreturn]] void broken(const std::string& path, const std::string& why) { throw_broken_safetensors(path, why); }

json parse_header(const std::string& path, const std::string& text) {
  std::set<std::string> seen;
  std::string fault;
  const auto once = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second)
      fault = fmt::format("the header names '{}' twice", value.get<std::string>());
    if (depth > 4) fault = "the header is nested too deeply";
    return true;
  };
  json header;
  try {
    header = parse_json<json>(text, "header", once);
  } catch (const InputError& error) {
    broken(path, error.what());
  }
  if (!fault.empty()) broken(path, fault);
  if (!header.is_object()) broken(path, "the header is not an object");
  return header;
}

HeaderTensor parse_entry(const std::string& path, const std::string& name, const json& entry, std::int64_t data,
                         std::int64_t data_bytes) {
  const auto bad = [&](const std::string& why) { broken(path, fmt::format("tensor '{}' {}", name, why)); };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    bad("does not have exactly dtype, shape and data_offsets");
  if (!entry["dtype"].is_string()) bad("has no dtype");
  HeaderTensor tensor;
  tensor.type = entry["dtype"];
  std::int64_t bytes = safetensors_element_bytes(tensor.type);
  if (bytes == 0) bad(fmt::format("has the element type '{}', which is not read here", tensor.type));
  if (!entry["shape"].is_array() || entry["shape"].size() > 64) bad("has no shape");
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
void check_cover(const std::string& path, const std::map<std::string, HeaderTensor>& tensors, std::int64_t data,
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

}  // namespace

void throw_broken_safetensors(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: not a whole safetensors file: {}", path, why));
}

int safetensors_element_bytes(const std::string& type) {
  for (const auto& [name, bytes] : kTypes)
    if (type == name) return bytes;
  return 0;
}

bool read_bytes_at(int file, std::int64_t offset, void* to, std::int64_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, out, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got, offset += got, bytes -= got;
  }
  return true;
}

SafetensorsHeader read_safetensors_header(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) broken(path, "not a regular file");
  const std::int64_t file_bytes = status.st_size;
  std::uint64_t header_bytes = 0;
  if (file_bytes < 8 || !read_bytes_at(file, 0, &header_bytes, 8)) broken(path, "shorter than its first eight bytes");
  if (header_bytes > static_cast<std::uint64_t>(std::min(kLongestHeader, file_bytes - 8)))
    broken(path, fmt::format("a header of {} bytes in a file of {}", header_bytes, file_bytes));
  std::string text(static_cast<std::size_t>(header_bytes), '\0');
  if (!read_bytes_at(file, 8, text.data(), static_cast<std::int64_t>(header_bytes))) broken(path, "its end is missing");
  const json root = parse_header(path, text);
  const std::int64_t data = 8 + static_cast<std::int64_t>(header_bytes);
  SafetensorsHeader header;
  for (const auto& [name, entry] : root.items()) {
    if (name != "__metadata__") {
      header.tensors.emplace(name, parse_entry(path, name, entry, data, file_bytes - data));
      continue;
    }
    if (!entry.is_object()) broken(path, "__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) broken(path, "__metadata__ holds something other than text");
      header.metadata.emplace(key, value.get<std::string>());
    }
  }
  check_cover(path, header.tensors, data, file_bytes);
  return header;
}

}  // namespace panpipe::exec
