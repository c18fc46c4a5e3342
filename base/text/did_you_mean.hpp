// What an unknown name was probably meant to be: the search, and the words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe {

// The nearest name by edit distance (at most a third of the length, at least 1), else one that starts with `name`.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// "did you mean 'memory'?"
std::string did_you_mean(std::string_view near);

// What follows "there is no X 'NAME'": ", did you mean 'memory'?" where a candidate is near, else `otherwise`.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates, const std::string& otherwise = "");

// The same; where none is near, "; there are a, b, c".
std::string suggestion_or_list(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace panpipe
