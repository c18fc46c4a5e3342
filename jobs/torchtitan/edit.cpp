#include "jobs/edit/base_job.hpp"
#include "jobs/edit/document_edits.hpp"
#include "jobs/toml_document.hpp"
#include "jobs/torchtitan/python_config.hpp"
#include "jobs/torchtitan/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace panpipe::jobs {
namespace {

// A file of assignments: "    config.parallelism.tensor_parallel_degree = 4".
class PythonEditor {
 public:
  explicit PythonEditor(const std::string& text) : text_(text), edits_(text) {
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      read_line(begin, end);
      begin = end + 1;
    }
    newline_ = text_.find("\r\n") == std::string::npos ? "\n" : "\r\n";
  }

  EditAttempt edited(const std::vector<Setting>& settings) {
    EditAttempt attempt{TextEdits(text_), {}};
    if (variable_.empty()) {
      attempt.by_hand.emplace_back("no function here returns a configuration");
      return attempt;
    }
    for (const Setting& setting : settings) set(setting);
    attempt.edits = edits_;
    return attempt;
  }

 private:
  void read_line(std::size_t begin, std::size_t end) {
    const std::size_t first = std::min(text_.find_first_not_of(" \t", begin), end);
    std::string line = text_.substr(first, end - first);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.starts_with("from ") || line.starts_with("import ")) imports_ = std::min(imports_, begin);
    if (!line.starts_with("return ") || first == begin) return;
    variable_ = line.substr(7);
    return_ = begin;
    indent_ = text_.substr(begin, first - begin);
  }

  // The value that is assigned last.
  std::optional<TextRange> value_of(const std::string& path) const {
    const std::string target = variable_ + "." + path;
    for (std::size_t at = text_.rfind(target); at != std::string::npos && at > 0; at = text_.rfind(target, at - 1)) {
      std::size_t begin = text_.find_first_not_of(" \t", at + target.size());
      const std::size_t line = text_.rfind('\n', at) + 1;
      const bool starts =
          text_.find_first_not_of(" \t", line) == at || text_.find_last_not_of(" \t", at - 1) == text_.rfind(';', at);
      if (!starts || begin == std::string::npos || text_[begin] != '=' || text_[begin + 1] == '=') continue;
      begin = std::min(text_.find_first_not_of(" \t", begin + 1), text_.size());
      return TextRange{begin, end_of_value(text_, begin)};
    }
    return std::nullopt;
  }

  void set(const Setting& setting) {
    const auto& [path, value] = setting;
    if (path == "activation_checkpoint" && value.ends_with(".Config()")) import(value.substr(0, value.size() - 9));
    if (const auto place = value_of(path)) {
      // FullAC.Config() goes on behind its bracket-free beginning.
      return edits_.replace(*place, value);
    }
    edits_.insert(return_, fmt::format("{}{}.{} = {}{}", indent_, variable_, path, value, newline_));
  }

  void import(const std::string& name) {
    if (text_.find("import " + name) != std::string::npos || text_.find(", " + name) != std::string::npos) return;
    edits_.insert(imports_ == std::string::npos ? 0 : imports_,
                  fmt::format("from torchtitan.distributed.activation_checkpoint import {}{}", name, newline_));
  }

  const std::string& text_;
  TextEdits edits_;
  std::string variable_, indent_, newline_;
  std::size_t return_ = 0, imports_ = std::string::npos;
};

// The settings in the words of releases that read TOML.
std::vector<Setting> in_toml(const std::vector<Setting>& settings) {
  std::vector<Setting> words;
  for (const auto& [path, value] : settings) {
    std::string written = value == "True" ? "true" : value == "False" ? "false" : value;
    if (path == "training.disable_cuda_graphs" || path == "parallelism.enable_sequence_parallel") continue;
    for (std::size_t at; (at = written.find("\"lm_head\"")) != std::string::npos;) written.replace(at, 9, "\"output\"");
    if (path != "activation_checkpoint") {
      words.emplace_back(path, written);
      continue;
    }
    const bool selective = value.starts_with("SelectiveAC");
    words.emplace_back("activation_checkpoint.mode", value == "None" ? "\"none\"" : selective ? "\"selective\"" : "\"full\"");
    if (selective) words.emplace_back("activation_checkpoint.selective_ac_option", "\"op\"");
  }
  return words;
}

// A list of modules has several lines, which end as the file's do.
std::vector<Setting> with_line_ends_of(const std::string& text, std::vector<Setting> settings) {
  if (text.find("\r\n") == std::string::npos) return settings;
  for (auto& [path, value] : settings)
    for (std::size_t at = 0; (at = value.find('\n', at)) != std::string::npos; at += 2) value.insert(at, 1, '\r');
  return settings;
}

EditAttempt torchtitan_attempt(const EditRequest& request, const std::vector<Setting>& changed) {
  const std::string& text = request.base.text;
  const std::vector<Setting> settings = with_line_ends_of(text, changed);
  if (is_python(text)) return PythonEditor(text).edited(settings);
  return document_attempt(request.base, *parse_toml(text, request.base.name), DocumentForm::Toml, in_toml(settings));
}

}  // namespace

std::vector<EditAttempt> edit_torchtitan(const EditRequest& request) {
  const std::vector<Setting> settings =
      changed_settings(torchtitan_plan_settings(request.before), torchtitan_plan_settings(request.after));
  // What a job may leave to follow from others, or have in a form that no plan has.
  std::vector<Setting> open;
  for (const Setting& one : torchtitan_plan_settings(request.after))
    if (one.first == "training.global_batch_size" || one.first == "activation_checkpoint") open.push_back(one);
  std::vector<EditAttempt> attempts;
  // The degree that takes the ranks that are left stays open where it is.
  for (const bool shard : {false, true})
    for (const bool more : {false, true}) {
      std::vector<Setting> tried;
      for (const Setting& one : settings)
        if (shard || one.first != "parallelism.data_parallel_shard_degree") tried.push_back(one);
      for (const Setting& one : open)
        if (more && std::find(tried.begin(), tried.end(), one) == tried.end()) tried.push_back(one);
      attempts.push_back(torchtitan_attempt(request, tried));
    }
  return attempts;
}

}  // namespace panpipe::jobs
