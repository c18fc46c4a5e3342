#include "jobs/edit/text_edits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "base/text/characters.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kContext = 3;  // lines around a change, as diff -u has them

// Lines with their ends; the last one may have none.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// Lines that are replaced by others: [old_begin, old_end) of the old text by [new_begin, new_end) of the new one.
struct Hunk {
  std::size_t old_begin = 0, old_end = 0, new_begin = 0, new_end = 0;
};

void add_line(std::string& diff, char mark, std::string_view line) {
  diff += mark;
  const bool ends = line.ends_with('\n');
  diff += without_controls(std::string(ends ? line.substr(0, line.size() - 1) : line), "\t\r");
  diff += ends ? "\n" : "\n\\ No newline at end of file\n";
}

std::string range_text(std::size_t begin, std::size_t end) {
  return fmt::format("{},{}", begin == end ? begin : begin + 1, end - begin);
}

}  // namespace

void TextEdits::replace(TextRange range, std::string with) {
  PANPIPE_CHECK(range.begin <= range.end && range.end <= text_.size(), "an edit lies outside of the text");
  const auto same = std::find_if(edits_.begin(), edits_.end(),
                                 [&](const Edit& edit) { return range.begin < range.end && edit.range == range; });
  if (same != edits_.end()) {
    same->with = std::move(with);
    return;
  }
  edits_.push_back({range, std::move(with)});
}

void TextEdits::insert(std::size_t at, std::string text) { replace({at, at}, std::move(text)); }

std::vector<TextEdits::Edit> TextEdits::sorted() const {
  std::vector<Edit> edits = edits_;
  std::stable_sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return a.range.begin != b.range.begin ? a.range.begin < b.range.begin : a.range.end < b.range.end;
  });
  for (std::size_t i = 1; i < edits.size(); ++i)
    PANPIPE_CHECK(edits[i - 1].range.end <= edits[i].range.begin, "two edits of a text overlap");
  return edits;
}

std::string TextEdits::result() const {
  std::string result;
  std::size_t at = 0;
  for (const Edit& edit : sorted()) {
    result += text_.substr(at, edit.range.begin - at) + edit.with;
    at = edit.range.end;
  }
  return result + text_.substr(at);
}

std::string TextEdits::difference(const std::string& name) const {
  const std::string changed = result();
  if (changed == text_) return "";
  const std::vector<std::string_view> before = lines_of(text_), after = lines_of(changed);
  // Touched lines of the old text, as hunks that grow by whole lines.
  std::vector<Hunk> hunks;
  std::size_t line = 0, start = 0;
  long long shift = 0;  // lines of the new text before the place, less those of the old one
  const auto count = [](std::string_view text) { return std::count(text.begin(), text.end(), '\n'); };
  for (const Edit& edit : sorted()) {
    while (line + 1 < before.size() && start + before[line].size() <= edit.range.begin) start += before[line++].size();
    std::size_t last = line;
    for (std::size_t end = start; last < before.size() && end + before[last].size() <= edit.range.end;)
      end += before[last++].size();
    const std::size_t old_end = std::min(before.size(), last + 1);
    const long long grows =
        count(edit.with) - count(std::string_view(text_).substr(edit.range.begin, edit.range.end - edit.range.begin));
    if (!hunks.empty() && line < hunks.back().old_end) {
      hunks.back().old_end = std::max(hunks.back().old_end, old_end);
    } else {
      hunks.push_back({line, old_end, static_cast<std::size_t>(static_cast<long long>(line) + shift), 0});
    }
    shift += grows;
    hunks.back().new_end = std::min(after.size(), static_cast<std::size_t>(static_cast<long long>(hunks.back().old_end) + shift));
  }
  // Lines of a hunk that both texts have at its ends are context.
  for (Hunk& hunk : hunks) {
    while (hunk.old_begin < hunk.old_end && hunk.new_begin < hunk.new_end && before[hunk.old_begin] == after[hunk.new_begin])
      ++hunk.old_begin, ++hunk.new_begin;
    while (hunk.old_begin < hunk.old_end && hunk.new_begin < hunk.new_end && before[hunk.old_end - 1] == after[hunk.new_end - 1])
      --hunk.old_end, --hunk.new_end;
  }
  std::erase_if(hunks, [](const Hunk& hunk) { return hunk.old_begin == hunk.old_end && hunk.new_begin == hunk.new_end; });
  const std::string shown = without_controls(name);
  std::string diff = fmt::format("--- {}\n+++ {}\n", shown, shown);
  for (std::size_t i = 0; i < hunks.size();) {
    std::size_t last = i;
    while (last + 1 < hunks.size() && hunks[last + 1].old_begin <= hunks[last].old_end + 2 * kContext) ++last;
    const std::size_t lead = std::min(kContext, hunks[i].old_begin),
                      tail = std::min(kContext, before.size() - hunks[last].old_end);
    diff += fmt::format("@@ -{} +{} @@\n", range_text(hunks[i].old_begin - lead, hunks[last].old_end + tail),
                        range_text(hunks[i].new_begin - lead, hunks[last].new_end + tail));
    std::size_t at = hunks[i].old_begin - lead;
    for (; i <= last; ++i) {
      for (; at < hunks[i].old_begin; ++at) add_line(diff, ' ', before[at]);
      for (; at < hunks[i].old_end; ++at) add_line(diff, '-', before[at]);
      for (std::size_t added = hunks[i].new_begin; added < hunks[i].new_end; ++added) add_line(diff, '+', after[added]);
    }
    for (std::size_t end = at + tail; at < end; ++at) add_line(diff, ' ', before[at]);
  }
  return diff;
}

}  // namespace panpipe::jobs
