#include "cli/build_info.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text/text_table.hpp"
#include "base/version.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

NamesAndValues libraries() {
  NamesAndValues used = {{"CLI11", CLI11_VERSION},
                         {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
#ifdef PANPIPE_SIMGRID_VERSION
  used.emplace_back("simgrid", PANPIPE_SIMGRID_VERSION);
#endif
  return used;
}

NamesAndValues build_info() {
  const std::string type = PANPIPE_BUILD_TYPE;
  NamesAndValues info = {{"build", fmt::format("{}, {}", type.empty() ? "no build type" : type, compiler())}};
#ifdef PANPIPE_SIMGRID_VERSION
  info.emplace_back("SimGrid", PANPIPE_SIMGRID_VERSION);
#else
  info.emplace_back("SimGrid", "not built in: simulate has the flow solver alone");
#endif
#ifdef PANPIPE_WITH_EXECUTOR
  info.emplace_back("executor", PANPIPE_WITH_EXECUTOR);
#else
  info.emplace_back("executor", "not built: run and profile need LibTorch");
#endif
  info.emplace_back("Ceres", validation::fit_available() ? "built in" : "not built in: fit cannot fit measured runs");
  info.emplace_back("CLI11", CLI11_VERSION);
  info.emplace_back("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  info.emplace_back("nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                                 NLOHMANN_JSON_VERSION_PATCH));
  info.emplace_back("yaml-cpp", PANPIPE_YAML_CPP_VERSION);
  return info;
}

std::string version_text() {
  TextTable table({"<", "<"});
  for (const auto& [name, value] : build_info()) table.row({name, value});
  return fmt::format("panpipe {}\n", kVersion) + table.text();
}

}  // namespace panpipe::cli
