// Suggestions for unknown names: the search and the wording.
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

// The end of a message "there is no X 'NAME'": ", did you mean 'memory'?" when a candidate is near, else `otherwise`.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates, const std::string& otherwise = "");

// The same, but lists all candidates when none is near: "; there are a, b, c".
std::string suggestion_or_list(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace panpipe
