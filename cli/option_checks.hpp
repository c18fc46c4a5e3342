// Kinds of options that several verbs share, and checks in CLI11's form: they return a sentence about the fault, or nothing.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe::cli {

// An option whose value help calls `type`: "FILE", "simgrid|flow".
template <class T>
CLI::Option* add_typed(CLI::App& sub, const std::string& name, T& value, const std::string& description, const char* type) {
  return sub.add_option(name, value, description)->type_name(type);
}

// A number from `least` to `most`.
template <class T, class Limit>
CLI::Option* add_number(CLI::App& sub, const std::string& name, T& value, const std::string& description, Limit least, Limit most,
                        const char* type = "N") {
  return add_typed(sub, name, value, description, type)->check(CLI::Range(least, most));
}

// One value each time that it is given.
inline CLI::Option* add_repeatable(CLI::App& sub, const std::string& name, std::vector<std::string>& values,
                                   const std::string& description, const char* type) {
  return add_typed(sub, name, values, description, type)->allow_extra_args(false);
}

// For options whose absence means "all available": 0 must not mean that too.
inline std::string at_least_one(const std::string& text) {
  const auto number = parse_integer(text);
  if (!number.value) return number.problem;
  return *number.value >= 1 ? ""
                            : fmt::format("{} is not a number from 1 on; without the option the ranks share the cores", text);
}

// For verbs whose rank processes also read the scenario. Throws InputError for a FIFO, which can be read only once.
inline void require_readable_again(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode))
    throw InputError(
        fmt::format("{}: every rank reads the scenario, and a FIFO can be read once; give a file, or - with `< {}`", path, path));
}

}  // namespace panpipe::cli
