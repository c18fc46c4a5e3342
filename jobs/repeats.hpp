// Lists with repetition in trainers' notation: "Et*2|(t*3|)*4L", "([0]*3+[1]*58)". Nothing is evaluated.
#pragma once

#include <string>
#include <string_view>

namespace panpipe::jobs {

struct Repeats {
  std::string flat;     // every repetition expanded, without brackets
  std::string problem;  // empty if it could be read: "has a '(' without its ')'"
};

// `brackets` are the pairs that group: "()", "()[]". A letter or a group may be followed by `*` and a number. `most` limits that
// number and the length of the result.
Repeats expand_repeats(std::string_view text, std::string_view brackets, std::size_t most);

}  // namespace panpipe::jobs
