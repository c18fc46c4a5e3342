#include "cli/selftest/selftest_report.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <regex>
#include <set>

#include "base/version.hpp"
#include "costmodel/prediction/experiment.hpp"

namespace panpipe::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> names_of_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string whole = name.data();
  return {whole, whole.substr(0, whole.find('.')), variable("HOSTNAME")};
}

// A field of this user's entry in the table of users.
std::string of_user(char* passwd::*field) {
  const passwd* entry = getpwuid(getuid());
  return entry && entry->*field ? entry->*field : "";
}

std::vector<std::string> names_of_user() {
  const std::string gecos = of_user(&passwd::pw_gecos);  // begins with the full name
  return {variable("USER"), variable("LOGNAME"), of_user(&passwd::pw_name), gecos.substr(0, gecos.find(','))};
}

std::vector<std::string> folders_of_user() { return {variable("HOME"), of_user(&passwd::pw_dir)}; }

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Every place where the word stands by itself.
std::string without_word(std::string text, const std::string& word, const std::string& instead) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    const std::size_t end = at + word.size();
    const bool alone = (at == 0 || !is_of_word(text[at - 1])) && (end == text.size() || !is_of_word(text[end]));
    if (alone) text.replace(at, word.size(), instead);
    at += alone ? instead.size() : 1;
  }
  return text;
}

}  // namespace

PrivateWords::PrivateWords() : PrivateWords(names_of_host(), names_of_user(), folders_of_user()) {}

PrivateWords::PrivateWords(std::vector<std::string> hosts, std::vector<std::string> users, std::vector<std::string> folders) {
  const auto add = [](std::vector<std::pair<std::string, std::string>>& to, const std::vector<std::string>& all,
                      const char* instead) {
    for (const std::string& each : all)
      if (!each.empty() && each != "/") to.emplace_back(each, instead);
  };
  add(words_, hosts, "HOST");
  add(words_, users, "USER");
  add(folders_, folders, "~");
  const auto longest_first = [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); };
  std::stable_sort(words_.begin(), words_.end(), longest_first);
  std::stable_sort(folders_.begin(), folders_.end(), longest_first);
}

std::string PrivateWords::removed_from(const std::string& text) const {
  std::string out = text;
  for (const auto& [folder, instead] : folders_) out = without_word(out, folder, instead);
  static const std::regex uuid("(GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}");
  static const std::regex hardware("\\b([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\\b");
  static const std::regex network("\\b(?!127\\.0\\.0\\.1\\b)[0-9]{1,3}(\\.[0-9]{1,3}){3}\\b");
  static const std::regex network6("\\b([0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{1,4}\\b");
  for (const std::regex* each : {&uuid, &hardware, &network, &network6}) out = std::regex_replace(out, *each, "REMOVED");
  for (const auto& [word, instead] : words_) out = without_word(out, word, instead);
  return out;
}

void PrivateWords::remove_from(nlohmann::ordered_json& document) const {
  if (document.is_string()) document = removed_from(document.get<std::string>());
  if (document.is_structured())
    for (auto& each : document) remove_from(each);
}

std::string verdict_of(const std::vector<StepReport>& steps) {
  std::size_t wrong = 0;
  for (const StepReport& step : steps)
    for (const Trouble& trouble : step.troubles) wrong += trouble.wrong;
  return wrong == 0 ? "all right" : wrong == 1 ? "one thing is wrong" : fmt::format("{} things are wrong", wrong);
}

nlohmann::ordered_json report_document(const std::vector<StepReport>& steps, const std::string& device) {
  nlohmann::ordered_json document = {
      {"schema", "panpipe-selftest/1"}, {"version", kVersion}, {"device", device}, {"verdict", verdict_of(steps)}};
  document["right"] = std::none_of(steps.begin(), steps.end(), [](const StepReport& step) { return step.wrong(); });
  for (const StepReport& step : steps) {
    nlohmann::ordered_json troubles = nlohmann::ordered_json::array();
    for (const Trouble& trouble : step.troubles)
      troubles.push_back({{"wrong", trouble.wrong}, {"what", trouble.what}, {"remedy", trouble.remedy}});
    document["steps"].push_back({{"name", step.name},
                                 {"done", step.done},
                                 {"text", step.text},
                                 {"troubles", std::move(troubles)},
                                 {"figures", step.figures}});
  }
  return document;
}

std::string report_page(const nlohmann::ordered_json& document) {
  std::string page = fmt::format("# panpipe selftest: {}\n\npanpipe {} on {}\n", document["verdict"].get<std::string>(),
                                 document["version"].get<std::string>(), document["device"].get<std::string>());
  for (const auto& step : document["steps"]) {
    page += fmt::format("\n## {}\n\n{}\n", step["name"].get<std::string>(), step["text"].get<std::string>());
    for (const auto& trouble : step["troubles"])
      page += fmt::format("\n* **{}**: {}\n  * remedy: {}\n", trouble["wrong"].get<bool>() ? "wrong" : "note",
                          trouble["what"].get<std::string>(), trouble["remedy"].get<std::string>());
    if (!step["figures"].empty()) page += fmt::format("\n```json\n{}\n```\n", step["figures"].dump(1));
  }
  return page;
}

}  // namespace panpipe::cli
