#include "jobs/repeats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/text/quantity_text.hpp"

namespace panpipe::jobs {
namespace {

// A bracket that is open, and what stands in it so far.
struct OpenGroup {
  char bracket;
  std::string flat;
};

class Expander {
 public:
  Expander(std::string_view text, std::string_view brackets, std::size_t most) : text_(text), brackets_(brackets), most_(most) {}

  Repeats expand() {
    open_.push_back({'\0', ""});
    while (at_ < text_.size() && problem_.empty()) step();
    if (problem_.empty() && open_.size() > 1) problem_ = fmt::format("has a '{}' without its pair", open_.back().bracket);
    return {problem_.empty() ? std::move(open_.front().flat) : "", problem_};
  }

 private:
  void step() {
    const char c = text_[at_++];
    const std::size_t bracket = brackets_.find(c);
    if (bracket == std::string_view::npos) return add(std::string(1, c));
    if (bracket % 2 == 0) {
      // A level takes a letter of the text, so that there are no more of them than letters.
      open_.push_back({c, ""});
      return;
    }
    if (open_.back().bracket != brackets_[bracket - 1]) {
      problem_ = fmt::format("has a '{}' without its pair", c);
      return;
    }
    const std::string group = std::move(open_.back().flat);
    open_.pop_back();
    add(group);
  }

  void add(const std::string& part) {
    const std::size_t times = times_here();
    if (!problem_.empty()) return;
    std::string& flat = open_.back().flat;
    if (!part.empty() && times > (most_ - std::min(most_, flat.size())) / part.size()) {
      problem_ = "is too long";
      return;
    }
    flat.reserve(flat.size() + times * part.size());
    for (std::size_t i = 0; i < times; ++i) flat += part;
  }

  // "*12" behind a part; 1 where there is none.
  std::size_t times_here() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const auto times = parse_integer(digits).value;
    if (!times || *times < 1 || static_cast<unsigned long long>(*times) > most_) {
      problem_ = fmt::format("repeats a part '{}' times", digits);
      return 1;
    }
    return static_cast<std::size_t>(*times);
  }

  std::string_view text_, brackets_;
  std::size_t most_, at_ = 0;
  std::vector<OpenGroup> open_;
  std::string problem_;
};

}  // namespace

Repeats expand_repeats(std::string_view text, std::string_view brackets, std::size_t most) {
  return Expander(text, brackets, most).expand();
}

}  // namespace panpipe::jobs
