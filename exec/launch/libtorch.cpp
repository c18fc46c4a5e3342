#include "exec/launch/libtorch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <system_error>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/files/installation.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string text_of(const fs::path& file) { return input_bytes(file).value_or(""); }

// "2.11.0+cu130" of the package's version.py, or of the file build-version in an archive of LibTorch alone.
std::string version_of(const fs::path& torch) {
  static const std::regex kLine("(^|\n)__version__ *= *['\"]([^'\"\n]+)['\"]");
  const std::string python = text_of(torch / "version.py");
  if (std::smatch match; std::regex_search(python, match, kLine)) return match[2];
  std::string version;
  std::istringstream(text_of(torch / "build-version")) >> version;
  return version;
}

// "2.11" of "2.11.0+cu130": releases of one minor version keep the binary interface.
std::string minor_version(const std::string& version) {
  const std::size_t first = version.find('.');
  return version.substr(0, first == std::string::npos ? first : version.find_first_not_of("0123456789", first + 1));
}

// The build's facts about its executor, from a file next to it: "version 2.11.0", and in a build folder "folder /...".
struct BuiltWith {
  std::string version, folder;
};

BuiltWith built_with(const fs::path& executor) {
  BuiltWith built;
  if (executor.empty()) return built;
  std::istringstream lines(text_of(executor.string() + ".libtorch"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("version ")) built.version = line.substr(8);
    if (line.starts_with("folder ")) built.folder = line.substr(7);
  }
  return built;
}

// The torch packages of an environment: ENV/lib/python3.11/site-packages/torch.
std::vector<fs::path> packages_in(const fs::path& environment) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored))
    if (entry.path().filename().string().starts_with("python3"))
      for (const char* packages : {"site-packages", "dist-packages"})
        if (const fs::path torch = entry.path() / packages / "torch"; is_file(torch / "lib/libtorch_cpu.so"))
          found.push_back(torch);
  std::sort(found.begin(), found.end());
  return found;
}

// Looks at a place: the first one that fits is kept, what was looked at before is noted.
void look(FoundLibTorch& found, const std::string& place, const std::vector<fs::path>& packages) {
  if (!found.folder.empty()) return;
  if (packages.empty()) found.looked.push_back(place + ": no torch in it");
  for (const fs::path& torch : packages) {
    const std::string version = version_of(torch);
    if (!is_file(torch / "lib/libtorch_cpu.so")) {
      found.looked.push_back(place + ": no lib/libtorch_cpu.so in it");
    } else if (!found.built_with.empty() && minor_version(version) != minor_version(found.built_with)) {
      found.looked.push_back(fmt::format("{}: torch {}", place, version.empty() ? "of unknown version" : version));
    } else {
      found.folder = fs::absolute(torch).lexically_normal().string();
      found.version = version;
      found.why = place;
      return;
    }
  }
}

// Runs python3 of $PATH to find its torch, because a shim is no link to it. torch is not imported, and not taken from the current
// folder.
void ask_python(FoundLibTorch& found, const Environment& environment) {
  const char* path = environment("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || !is_file(python)) continue;
    std::string quoted;
    for (const char c : python.string()) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    const std::string command =
        "'" + quoted +
        "' -c 'import sys, importlib.util\nsys.path[:] = [p for p in sys.path if p]\n"
        "spec = importlib.util.find_spec(\"torch\")\n"
        "print(spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else \"\")' "
        "2>/dev/null </dev/null";
    std::string answer;
    if (const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose); pipe) {
      char part[4096];
      while (std::fgets(part, sizeof(part), pipe.get())) answer += part;
    }
    answer.erase(std::min(answer.find('\n'), answer.size()));
    look(found, python.string() + " of PATH", answer.empty() ? std::vector<fs::path>() : std::vector<fs::path>{answer});
    return;
  }
  look(found, "python3 of PATH (there is none)", {});
}

}  // namespace

FoundLibTorch find_libtorch(const Environment& environment, const LibTorchPlaces& places) {
  const auto set = [&](const char* name) {
    const char* value = environment(name);
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  };
  const BuiltWith built = built_with(places.executor);
  FoundLibTorch found;
  found.built_with = built.version;
  if (const auto folder = set("PANPIPE_LIBTORCH")) {
    look(found, "PANPIPE_LIBTORCH=" + *folder, {*folder});
    return found;
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto active = set(name)) look(found, fmt::format("{}={}", name, *active), packages_in(*active));
  if (!built.folder.empty()) look(found, built.folder + ", that this build was made with", {built.folder});
  if (!places.prefix.empty()) {
    // A wheel lies in the site-packages of its environment, or next to its lib/.
    std::vector<fs::path> own = packages_in(places.prefix);
    for (fs::path folder = places.prefix; folder.has_relative_path(); folder = folder.parent_path())
      if (folder.filename() == "site-packages" && is_file(folder / "torch/lib/libtorch_cpu.so")) own.push_back(folder / "torch");
    if (!own.empty()) look(found, "the environment of this program, " + places.prefix.string(), own);
  }
  std::vector<fs::path> kept;
  if (!places.prefix.empty()) kept.push_back(places.prefix / "share/panpipe/venv");
  if (const auto home = set("HOME")) kept.push_back(fs::path(*home) / ".local/share/panpipe/venv");
  for (const fs::path& folder : kept) look(found, folder.string(), packages_in(folder));
  if (found.folder.empty()) ask_python(found, environment);
  return found;
}

FoundLibTorch find_libtorch() {
  return find_libtorch([](const char* name) { return static_cast<const char*>(std::getenv(name)); },
                       {find_part("panpipe-exec"), installation_prefix()});
}

std::string no_libtorch(const FoundLibTorch& search) {
  const std::string minor = minor_version(search.built_with);
  std::string text =
      search.built_with.empty()
          ? "no LibTorch was found"
          : fmt::format("the executor was built with torch {}, and none of version {}.x was found", search.built_with, minor);
  for (const std::string& place : search.looked) text += "\n  looked at " + place;
  return text +
         fmt::format(
             "\n  help: pip install 'torch=={}.*' in an environment that is active when panpipe runs, or name the folder of "
             "such a torch package in PANPIPE_LIBTORCH",
             minor.empty() ? "2" : minor);
}

void use_libtorch() {
  static bool done = false;
  if (done) return;
  const FoundLibTorch found = find_libtorch();
  if (found.built_with.empty()) return;
  if (found.folder.empty()) throw MachineError(no_libtorch(found));
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string path = found.folder + "/lib" + (before && *before ? ":" + std::string(before) : "");
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  done = true;
}

}  // namespace panpipe::exec
