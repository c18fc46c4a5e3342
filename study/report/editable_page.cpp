#include "study/report/editable_page.hpp"

#include <fmt/format.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/installation.hpp"
#include "base/input/reader.hpp"
#include "base/input/source_text.hpp"
#include "present/picture/markup.hpp"
#include "study/report/report.hpp"

namespace panpipe::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "<script type=\"module\">";  // the page's own, before which its files stand

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
}

bool is_unchanged(const fs::path& file, const std::string& hash) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && sha256_of_file(file.string()) == hash;
}

// The scenario names files of the machine on which it was resolved. The page has the shipped ones; others come along.
nlohmann::ordered_json bring_files(std::string& scenario, const present::ResultDocument& result) {
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  for (const auto& [path, hash] : result.hashes) {
    const fs::path file(path), shipped = file.parent_path().filename() / file.filename();
    if (scenario.find(path) == std::string::npos) continue;
    if (is_unchanged(fs::path(data_directory()) / shipped, hash)) {
      replace_all(scenario, path, shipped.string());
    } else if (is_unchanged(file, hash)) {
      files[file.filename().string()] = read_text_file(path);
      replace_all(scenario, path, file.filename().string());
    }
  }
  return files;
}

}  // namespace

std::string predicting_page() {
  std::error_code ignored;
  const fs::path prefix = installation_prefix();
  for (const fs::path& file : {prefix / "share/panpipe/page/panpipe.html", prefix.parent_path() / "web/panpipe.html"})
    if (fs::exists(file, ignored)) return read_text_file(file.string());
  throw MachineError("the page that predicts is not built: make web builds it; without --editable a report needs nothing more");
}

std::string with_result(const std::string& page, const std::string& folder) {
  const ReportInput input = read_report_input(folder);  // refuses what is no result
  if (input.scenario.empty())
    throw InputError(fmt::format("{}: no scenario.yaml next to the result", folder),
                     "give the folder that estimate, simulate or run wrote with -o");
  const fs::path result = fs::is_directory(folder) ? fs::path(folder) / "result.json" : fs::path(folder);
  std::string scenario = input.scenario;
  const nlohmann::ordered_json files = bring_files(scenario, input.result);
  const nlohmann::ordered_json inside = {{"name", input.result.scenario.empty() ? "scenario.yaml" : input.result.scenario},
                                         {"scenario", scenario},
                                         {"files", files},
                                         {"result", read_text_file(result.string())}};
  const std::size_t at = page.rfind(kModule);
  if (at == std::string::npos) throw MachineError("the page that predicts is damaged: make web builds it anew");
  std::string answer = page;
  return answer.insert(
      at, fmt::format("<script type=\"application/json\" id=\"inside\">{}</script>\n", present::script_json(inside.dump())));
}

}  // namespace panpipe::study
