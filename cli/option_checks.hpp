// Checks of options that several verbs share; as CLI11 takes them: the sentence that says what is wrong, or nothing.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <string>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe::cli {

// Where leaving the option out means "as many as there are", 0 must not mean it too.
inline std::string at_least_one(const std::string& text) {
  const auto number = parse_integer(text);
  if (!number.value) return number.problem;
  return *number.value >= 1 ? ""
                            : fmt::format("{} is not a number from 1 on; without the option the ranks share the cores", text);
}

// For verbs whose ranks are processes, which read the scenario too. InputError for a FIFO, which gives its text once.
inline void require_readable_again(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode))
    throw InputError(
        fmt::format("{}: every rank reads the scenario, and a FIFO can be read once; give a file, or - with `< {}`", path, path));
}

}  // namespace panpipe::cli
