// Reads the directory of a ZIP file (PKWARE APPNOTE 6.3.9, sections 4.3 and 4.5.3 for ZIP64). Only what PyTorch writes is
// accepted.
#include "costmodel/workload/archive_container.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/files/files_read.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kMostEntries = 1 << 20;      // a tensor each: more than any model has
constexpr std::int64_t kMostDirectory = 256 << 20;  // bytes of directory
constexpr std::uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr std::uint32_t kEntrySignature = 0x02014b50, kHeaderSignature = 0x04034b50;
constexpr std::uint16_t kEncrypted = 1;

std::uint64_t number(std::string_view bytes, std::size_t at, int width) {
  std::uint64_t value = 0;
  for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

// Sizes and offsets that do not fit in 32 bits are in an extra field with id 1, in this order, only those that are needed.
bool widen(std::string_view extra, std::uint64_t& bytes, std::uint64_t& stored, std::uint64_t& header) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const auto id = number(extra, at, 2);
    const auto length = static_cast<std::size_t>(number(extra, at + 2, 2));
    at += 4;
    if (at + length > extra.size()) return false;
    if (id == 1) {
      std::size_t field = at;
      for (std::uint64_t* value : {&bytes, &stored, &header}) {
        if (*value != 0xffffffffU) continue;
        if (field + 8 > at + length) return false;
        *value = number(extra, field, 8);
        field += 8;
      }
      return true;
    }
    at += length;
  }
  return bytes != 0xffffffffU && stored != 0xffffffffU && header != 0xffffffffU;
}

// Names are used to find entries and never as paths; a name that tries to be one is still no archive of PyTorch's.
bool is_plain(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    return false;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part == ".." || part == ".") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

ArchiveContainer::ArchiveContainer(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
  report_file_read(path);
  if (!file_) throw InputError(fmt::format("{}: the file cannot be read", path));
  size_ = static_cast<std::int64_t>(file_.tellg());
  if (size_ < 0) throw InputError(fmt::format("{}: this is no file", path));
  read_directory(find_directory());
}

void ArchiveContainer::damaged(const std::string& why) const {
  throw InputError(fmt::format("{}: {}; export the model again with torch.export.save", path_, why));
}

std::string ArchiveContainer::bytes_at(std::int64_t offset, std::int64_t count, const char* what) {
  if (offset < 0 || count < 0 || count > size_ || offset > size_ - count)
    damaged(fmt::format("the archive is damaged: its {} lies outside the file", what));
  std::string bytes(static_cast<std::size_t>(count), '\0');
  file_.seekg(offset);
  if (!file_.read(bytes.data(), count)) damaged(fmt::format("the archive is damaged: its {} cannot be read", what));
  return bytes;
}

ArchiveContainer::Directory ArchiveContainer::find_directory() {
  constexpr std::int64_t kEnd = 22, kLongestComment = 0xffff, kLocator = 20, kEnd64 = 56;
  const std::int64_t tail = std::min(size_, kEnd + kLongestComment);
  const std::string bytes = bytes_at(size_ - tail, tail, "end");
  for (std::int64_t at = tail - kEnd; at >= 0; --at) {
    const auto place = static_cast<std::size_t>(at);
    if (number(bytes, place, 4) != kEndSignature) continue;
    if (number(bytes, place + 4, 2) != 0 || number(bytes, place + 6, 2) != 0) damaged("the archive spans several disks");
    auto entries = number(bytes, place + 10, 2), length = number(bytes, place + 12, 4), offset = number(bytes, place + 16, 4);
    const std::int64_t locator_at = size_ - tail + at - kLocator;
    if (locator_at >= 0) {
      const std::string locator = bytes_at(locator_at, kLocator, "ZIP64 locator");
      if (number(locator, 0, 4) == kLocator64Signature) {
        const std::string end = bytes_at(static_cast<std::int64_t>(number(locator, 8, 8)), kEnd64, "ZIP64 directory end");
        if (number(end, 0, 4) != kEnd64Signature) damaged("the archive is damaged: its ZIP64 directory end is missing");
        entries = number(end, 32, 8);
        length = number(end, 40, 8);
        offset = number(end, 48, 8);
      }
    }
    const Directory directory{static_cast<std::int64_t>(offset), static_cast<std::int64_t>(length),
                              static_cast<std::int64_t>(entries)};
    if (directory.entries < 0 || directory.entries > kMostEntries)
      damaged(fmt::format("the archive claims {} entries, which no model has", entries));
    if (directory.bytes < 0 || directory.bytes > kMostDirectory) damaged("the archive's directory is too long");
    return directory;
  }
  throw InputError(fmt::format("{}: this is no .pt2 archive (no ZIP directory); write one with torch.export.save", path_));
}

void ArchiveContainer::read_directory(const Directory& directory) {
  constexpr std::size_t kFixed = 46;
  const std::string bytes = bytes_at(directory.offset, directory.bytes, "directory");
  std::string top;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < directory.entries; ++i) {
    if (at + kFixed > bytes.size() || number(bytes, at, 4) != kEntrySignature)
      damaged(fmt::format("the archive is damaged: its directory ends after {} of {} entries", i, directory.entries));
    const auto flags = static_cast<std::uint16_t>(number(bytes, at + 8, 2));
    const auto method = number(bytes, at + 10, 2);
    std::uint64_t stored = number(bytes, at + 20, 4), length = number(bytes, at + 24, 4), header = number(bytes, at + 42, 4);
    const auto name_length = static_cast<std::size_t>(number(bytes, at + 28, 2));
    const auto extra_length = static_cast<std::size_t>(number(bytes, at + 30, 2));
    const auto comment_length = static_cast<std::size_t>(number(bytes, at + 32, 2));
    if (at + kFixed + name_length + extra_length + comment_length > bytes.size())
      damaged(fmt::format("the archive is damaged: its directory ends after {} of {} entries", i, directory.entries));
    const std::string name = bytes.substr(at + kFixed, name_length);
    if (!is_plain(name)) damaged(fmt::format("the entry name '{}' is not one that PyTorch writes", name));
    if ((flags & kEncrypted) != 0) damaged(fmt::format("the entry '{}' is encrypted", name));
    if (method != 0) damaged(fmt::format("the entry '{}' is compressed (method {}), which PyTorch never does", name, method));
    if (!widen(std::string_view(bytes).substr(at + kFixed + name_length, extra_length), length, stored, header))
      damaged(fmt::format("the archive is damaged: '{}' lacks its ZIP64 sizes", name));
    if (stored != length)
      damaged(fmt::format("the archive is damaged: '{}' is stored with {} bytes and has {}", name, stored, length));
    ArchiveEntry entry;
    entry.bytes = static_cast<std::int64_t>(length);
    entry.checksum = static_cast<std::uint32_t>(number(bytes, at + 16, 4));
    place_entry(entry, name, static_cast<std::int64_t>(header), directory.offset);
    // All entries are in one folder, named after the file as first written.
    const std::size_t slash = name.find('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash);
    if (i == 0) top = folder;
    if (slash == std::string::npos || folder != top)
      damaged(fmt::format("the entry '{}' is outside the archive's folder '{}'", name, top));
    if (!entries_.emplace(name.substr(slash + 1), entry).second) damaged(fmt::format("the archive contains '{}' twice", name));
    at += kFixed + name_length + extra_length + comment_length;
  }
}

void ArchiveContainer::place_entry(ArchiveEntry& entry, const std::string& name, std::int64_t header, std::int64_t directory) {
  constexpr std::int64_t kFixed = 30;
  const std::string what = fmt::format("entry '{}'", name);
  const std::string bytes = bytes_at(header, kFixed, what.c_str());
  if (number(bytes, 0, 4) != kHeaderSignature)
    damaged(fmt::format("the archive is damaged: '{}' is not where it should be", name));
  if (number(bytes, 8, 2) != 0) damaged(fmt::format("the archive is damaged: the two headers of '{}' differ", name));
  entry.offset = header + kFixed + static_cast<std::int64_t>(number(bytes, 26, 2) + number(bytes, 28, 2));
  if (entry.bytes < 0 || entry.offset > directory || entry.bytes > directory - entry.offset)
    damaged(fmt::format("the archive is damaged: its entry '{}' lies outside the file", name));
}

const ArchiveEntry* ArchiveContainer::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string ArchiveContainer::read(const std::string& name, std::int64_t most) {
  const ArchiveEntry* entry = find(name);
  if (!entry) damaged(fmt::format("the archive holds no '{}'", name));
  if (entry->bytes > most) damaged(fmt::format("'{}' has {} bytes, at most {} are read", name, entry->bytes, most));
  std::string bytes = bytes_at(entry->offset, entry->bytes, name.c_str());
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != entry->checksum)
    damaged(fmt::format("the archive is damaged: the checksum of '{}' is wrong", name));
  return bytes;
}

}  // namespace panpipe
