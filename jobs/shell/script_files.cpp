#include "jobs/shell/script_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/source_text.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostValue = std::size_t{1} << 20;

std::vector<std::size_t> starts_of_lines(const std::string& text) {
  std::vector<std::size_t> starts{0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool ends = text[i] == '\n' || (text[i] == '\r' && (i + 1 >= text.size() || text[i + 1] != '\n'));
    if (ends) starts.push_back(i + 1);
  }
  return starts;
}

}  // namespace

int ScriptFiles::add(const std::string& bytes, const std::string& name) {
  File file;
  file.source.name = name;
  file.text = checked_text(bytes, file.source);
  file.starts = starts_of_lines(file.text);
  file.raw_starts = starts_of_lines(bytes);
  if (bytes.rfind("\xEF\xBB\xBF", 0) == 0) file.raw_starts[0] = 3;
  files_.push_back(std::move(file));
  return static_cast<int>(files_.size()) - 1;
}

int ScriptFiles::line(int file, std::size_t offset) const {
  if (file < 0) return 0;
  const auto& starts = files_[static_cast<std::size_t>(file)].starts;
  return static_cast<int>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin());
}

TextPlace ScriptFiles::place(int file, std::size_t begin, std::size_t length) const {
  const File& in = files_[static_cast<std::size_t>(file)];
  const auto raw = [&](std::size_t offset) {
    const auto line = static_cast<std::size_t>(this->line(file, offset) - 1);
    return in.raw_starts[std::min(line, in.raw_starts.size() - 1)] + offset - in.starts[line];
  };
  const int line = this->line(file, begin);
  const std::size_t start = in.starts[static_cast<std::size_t>(line - 1)];
  const auto last = length == 0 ? begin : begin + length - 1;
  return {in.source.name, raw(begin), length == 0 ? raw(begin) : raw(last) + 1, line,
          character_column(in.source, line, static_cast<int>(begin - start))};
}

void ScriptBudget::spend(std::size_t work) {
  if (work > left_) throw InputError(fmt::format("{}: the script takes too many steps to follow", name_), kArgumentsAlone);
  left_ -= work;
}

void ScriptBudget::check_size(std::size_t bytes, int line) const {
  if (bytes > kMostValue) throw InputError(fmt::format("{}:{}: a value grows beyond 1 MiB", name_, line), kArgumentsAlone);
}

}  // namespace panpipe::jobs
