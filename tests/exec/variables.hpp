// The variables of an environment, as a launcher sets them.
#pragma once

#include <map>
#include <string>

namespace panpipe::exec {

using Variables = std::map<std::string, std::string>;

inline auto value_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

}  // namespace panpipe::exec
