#include "jobs/job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kWidth = 110;  // of a comment's line

// "# name: a, b, c", broken at commas.
void add_list(std::string& text, const std::string& name, const std::vector<std::string>& items) {
  if (items.empty()) return;
  std::string line = fmt::format("# {}:", name);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string piece = fmt::format(" {}{}", without_controls(items[i]), i + 1 < items.size() ? "," : "");
    if (line.size() + piece.size() > kWidth) {
      text += line + "\n";
      line = "#  ";
    }
    line += piece;
  }
  text += line + "\n";
}

std::string top_of(const std::string& key) { return key.substr(0, key.find('.')); }

std::string line_of(const std::string& key, const ImportedValue& value) {
  return without_controls(fmt::format("{}: {}  # {}", key, value.value, value.origin)) + "\n";
}

}  // namespace

std::string one_line(std::string text) {
  constexpr std::size_t kMost = 60;
  text = without_controls(std::move(text));
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + " ...";
}

bool names_one_of(const std::string& name, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& known) {
    return known.ends_with('*') ? name.rfind(known.substr(0, known.size() - 1), 0) == 0 : name == known;
  });
}

void refuse_unknown(const ImportedJob& job) {
  std::string names, defines;
  for (const UnknownName& unknown : job.unknown) {
    const bool argument = unknown.name.find_first_not_of("0123456789") == std::string::npos;
    names += fmt::format("{}{}{} (line {})", names.empty() ? "" : ", ", argument ? "$" : "", unknown.name, unknown.line);
    defines += fmt::format("{}{}{}=...", defines.empty() ? "" : " ", argument ? "--argument " : "--define ", unknown.name);
  }
  throw InputError(fmt::format("{}:{}: nothing is run here, so these are not known: {}", job.source, job.unknown.front().line,
                               without_controls(names)),
                   fmt::format("state them: {}", without_controls(defines)), code::kMissingKey);
}

std::string scenario_text(const ImportedJob& job) {
  std::string text = fmt::format("# {} ({}), imported by panpipe.\n", without_controls(job.source), job.trainer);
  for (const std::string& assumption : job.assumptions) text += "# Assumed: " + without_controls(assumption) + "\n";
  add_list(text, "Understood, but not part of a prediction", job.not_modelled);
  add_list(text, "NOT UNDERSTOOD", job.not_understood);
  add_list(text, "Without effect on a step", job.without_effect);
  text += "panpipe: 1\n";
  // One block a top key, in the order of first mention.
  std::vector<std::string> tops;
  for (const ImportedValue& value : job.values)
    if (std::find(tops.begin(), tops.end(), top_of(value.key)) == tops.end()) tops.push_back(top_of(value.key));
  for (const std::string& top : tops) {
    bool opened = false;
    for (const ImportedValue& value : job.values) {
      if (top_of(value.key) != top) continue;
      if (value.key == top) {
        text += line_of(top, value);
        continue;
      }
      if (!opened) text += top + ":\n";
      opened = true;
      text += "  " + line_of(value.key.substr(top.size() + 1), value);
    }
  }
  return text;
}

}  // namespace panpipe::jobs
