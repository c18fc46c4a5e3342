// Makes the driver's files seem to be there: /dev/nvidiactl and /dev/nvidiaN for N below STAND_IN_GPUS, when a program asks
// whether they exist or lists /dev. They cannot be opened.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/stand_in_gpu/settings.hpp"

namespace {

using namespace panpipe::stand_in;

int gpus() { return static_cast<int>(number_setting("STAND_IN_GPUS", 8)); }

bool is_stand_in(const char* path) {
  constexpr std::string_view kFolder = "/dev/nvidia";
  if (!path || std::strncmp(path, kFolder.data(), kFolder.size()) != 0) return false;
  const std::string rest = path + kFolder.size();
  if (rest == "ctl") return gpus() > 0;
  return !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos && std::stoi(rest) < gpus();
}

// The function of that name behind this library.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Listings of /dev that are being read, and how many stand-ins each has returned.
struct Listings {
  std::mutex lock;
  std::map<DIR*, int> reported;
};
Listings& listings() {
  static auto* instance = new Listings;
  return *instance;
}

DIR* remember_listing(DIR* folder) {
  if (!folder) return folder;
  struct stat opened {
  }, devices{};
  if (fstat(dirfd(folder), &opened) == 0 && stat("/dev", &devices) == 0 && opened.st_ino == devices.st_ino &&
      opened.st_dev == devices.st_dev) {
    const std::lock_guard hold(listings().lock);
    listings().reported[folder] = 0;
  }
  return folder;
}

// The next stand-in of a listing of /dev that has returned its real entries; null where there is none.
template <class Entry>
Entry* next_stand_in(DIR* folder) {
  static thread_local Entry entry;
  const std::lock_guard hold(listings().lock);
  const auto found = listings().reported.find(folder);
  if (found == listings().reported.end() || gpus() == 0 || found->second > gpus()) return nullptr;
  const int number = found->second++;
  entry = {};
  entry.d_ino = 1;
  entry.d_type = DT_CHR;
  if (number == 0)
    std::snprintf(entry.d_name, sizeof(entry.d_name), "nvidiactl");
  else
    std::snprintf(entry.d_name, sizeof(entry.d_name), "nvidia%d", number - 1);
  return &entry;
}

}  // namespace

extern "C" {

int stat(const char* path, struct stat* result) noexcept {
  return next<int(const char*, struct stat*)>("stat")(is_stand_in(path) ? "/dev/null" : path, result);
}
int lstat(const char* path, struct stat* result) noexcept {
  return next<int(const char*, struct stat*)>("lstat")(is_stand_in(path) ? "/dev/null" : path, result);
}
int stat64(const char* path, struct stat64* result) noexcept {
  return next<int(const char*, struct stat64*)>("stat64")(is_stand_in(path) ? "/dev/null" : path, result);
}
// The names of the same before glibc 2.33, which LibTorch's libraries still use.
int __xstat(int version, const char* path, struct stat* result) noexcept {
  return next<int(int, const char*, struct stat*)>("__xstat")(version, is_stand_in(path) ? "/dev/null" : path, result);
}
int __xstat64(int version, const char* path, struct stat64* result) noexcept {
  return next<int(int, const char*, struct stat64*)>("__xstat64")(version, is_stand_in(path) ? "/dev/null" : path, result);
}
int access(const char* path, int mode) noexcept {
  return next<int(const char*, int)>("access")(is_stand_in(path) ? "/dev/null" : path, mode);
}
DIR* opendir(const char* path) { return remember_listing(next<DIR*(const char*)>("opendir")(path)); }
DIR* fdopendir(int file) { return remember_listing(next<DIR*(int)>("fdopendir")(file)); }
dirent* readdir(DIR* folder) {
  dirent* entry = next<dirent*(DIR*)>("readdir")(folder);
  return entry ? entry : next_stand_in<dirent>(folder);
}
dirent64* readdir64(DIR* folder) {
  dirent64* entry = next<dirent64*(DIR*)>("readdir64")(folder);
  return entry ? entry : next_stand_in<dirent64>(folder);
}
int closedir(DIR* folder) {
  {
    const std::lock_guard hold(listings().lock);
    listings().reported.erase(folder);
  }
  return next<int(DIR*)>("closedir")(folder);
}
}
