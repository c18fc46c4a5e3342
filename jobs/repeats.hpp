// Lists with repeats, as trainers write them: "Et*2|(t*3|)*4L", "([0]*3+[1]*58)". Nothing is evaluated.
#pragma once

#include <string>
#include <string_view>

namespace panpipe::jobs {

struct Repeats {
  std::string flat;     // every repeat written out, without brackets
  std::string problem;  // empty when it could be read: "has a '(' without its ')'"
};

// `brackets` are the pairs that group: "()", "()[]". A letter or a group may be followed by `*` and a number. `most` bounds the
// number and the length of what is written out.
Repeats expand_repeats(std::string_view text, std::string_view brackets, std::size_t most);

}  // namespace panpipe::jobs
