#include "base/files/files_write.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // that the kernel follows, too

[[noreturn]] void refuse(const std::string& message, const std::string& advice) { throw InputError(message, advice); }

[[noreturn]] void cannot(const std::string& doing, int reason, const std::string& advice) {
  throw MachineError(
      fmt::format("cannot {}: {}{}", doing, std::strerror(reason != 0 ? reason : EIO), advice.empty() ? "" : "; " + advice));
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// Links of /proc name an open file, whatever their text.
bool is_on_proc(const fs::path& folder) {
  struct statfs system {};
  return statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

struct Target {
  fs::path path;
  bool into = false;
};

// "new/../file" means the file even if folder "new" does not exist yet; the file may be one that must not be replaced.
fs::path without_missing_folders(const fs::path& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0 || path.empty()) return path;
  std::error_code error;
  const fs::path place = fs::weakly_canonical(path, error);
  return error ? path : place;
}

// Where bytes for `path` go.
Target target_of(const std::string& path, const std::string& advice) {
  fs::path target = without_missing_folders(path);
  struct stat found {};
  for (int links = 0; lstat(target.c_str(), &found) == 0 && S_ISLNK(found.st_mode); ++links) {
    if (links == kMostLinks) cannot("write " + path, ELOOP, advice);
    if (is_on_proc(folder_of(target))) break;
    std::error_code error;
    const fs::path next = fs::read_symlink(target, error);
    if (error) cannot("write " + path, error.value(), advice);
    target = without_missing_folders(folder_of(target) / next);
  }
  const bool open_file = lstat(target.c_str(), &found) == 0 && S_ISLNK(found.st_mode);
  const bool exists = stat(target.c_str(), &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) refuse(fmt::format("cannot write {}: it is a folder, not a file", path), advice);
  if (exists && S_ISSOCK(found.st_mode)) refuse(fmt::format("cannot write {}: it is a socket, not a file", path), advice);
  if (path.empty() || path.ends_with('/')) refuse(fmt::format("cannot write '{}': this names no file", path), advice);
  return {target, open_file || (exists && !S_ISREG(found.st_mode))};
}

void refuse_inputs(const std::string& path, const fs::path& target, const std::string& advice) {
  const std::string input = name_as_input(target);
  if (!input.empty()) refuse(fmt::format("the output {} would replace the input {}", path, input), advice);
}

// The nearest folder above that exists must take new entries; root may do everything.
void check_folder(const std::string& path, const fs::path& target, const std::string& advice) {
  fs::path folder = folder_of(target);
  struct stat found {};
  while (stat(folder.c_str(), &found) != 0) {
    if (errno != ENOENT) cannot("write " + path, errno, advice);
    if (!folder.has_parent_path() || folder == folder.parent_path()) return;
    folder = folder.parent_path();
  }
  if (!S_ISDIR(found.st_mode)) cannot("write " + path, ENOTDIR, advice);
  if (access(folder.c_str(), W_OK | X_OK) != 0) cannot("write " + path, errno, advice);
}

}  // namespace

void check_outputs(const std::vector<std::string>& files, const std::string& advice) {
  std::map<fs::path, std::string> targets;
  for (const std::string& path : files) {
    const Target target = target_of(path, advice);
    if (target.into) continue;
    refuse_inputs(path, target.path, advice);
    check_folder(path, target.path, advice);
    std::error_code ignored;
    const auto [other, first] = targets.emplace(fs::weakly_canonical(target.path, ignored), path);
    if (!first) refuse(fmt::format("the outputs {} and {} are one file", other->second, path), advice);
  }
}

void check_outputs(const std::string& folder, const std::vector<std::string>& names, const std::string& advice) {
  struct stat found {};
  if (stat(folder.c_str(), &found) == 0 && !S_ISDIR(found.st_mode)) cannot("make the folder " + folder, ENOTDIR, advice);
  std::vector<std::string> files;
  for (const std::string& name : names) files.push_back((fs::path(folder) / name).string());
  check_outputs(files, advice);
}

bool is_written_into(const std::string& path) { return target_of(path, "").into; }

void make_folder(const std::string& folder, const std::string& advice) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot("make the folder " + folder, error.value(), advice);
}

void make_folder_of(const std::string& file, const std::string& advice) {
  const fs::path folder = folder_of(file);
  std::error_code error;
  if (!fs::is_directory(folder, error)) make_folder(folder.string(), advice);
}

OutputFile::OutputFile(std::string path, std::string advice) : path_(std::move(path)), advice_(std::move(advice)) {
  const Target target = target_of(path_, advice_);
  target_ = target.path.string();
  if (target.into) {
    file_ = open(target_.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
  } else {
    part_ = target_ + ".part";
    refuse_inputs(path_, target_, advice_);
    refuse_inputs(path_, part_, advice_);
    make_folder_of(target_, advice_);
    unlink(part_.c_str());  // of a call that was killed
    file_ = open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file_ < 0) fail();
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  if (!part_.empty()) unlink(part_.c_str());
}

void OutputFile::fail() {
  const int reason = errno;
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (!part_.empty()) unlink(part_.c_str());
  cannot("write " + path_, reason, advice_);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(file_, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail();
    from += put, bytes -= static_cast<std::size_t>(put);
  }
}

void OutputFile::finish(bool durable) {
  if (durable && fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail();
  if (close(std::exchange(file_, -1)) != 0) fail();
  if (!part_.empty() && std::rename(part_.c_str(), target_.c_str()) != 0) fail();
}

void write_file(const std::string& path, const std::string& text, const std::string& advice) {
  OutputFile file(path, advice);
  file.write(text.data(), text.size());
  file.finish();
}

}  // namespace panpipe
