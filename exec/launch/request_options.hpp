// The options of a request, each listed once: the command line reads them by that list, and a launcher writes them for its
// executor. A list is called as list(request, see), and calls see(option, value, type, help) for each.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace panpipe::exec {

template <class Request, class List>
void read_options(CLI::App& app, Request& request, const char* scenario, const List& list) {
  app.add_option("SCENARIO", request.scenario, scenario)->required();
  app.add_option("--set", request.overrides, "override a key: --set batch.micro=4 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  list(request, [&](const char* option, auto& value, const char* type, const char* help) {
    if constexpr (std::is_same_v<decltype(value), bool&>)
      app.add_flag(option, value, help);
    else
      app.add_option(option, value, help)->type_name(type);
  });
}

// Arguments that read_options() parses back to this request: those that differ from a request by default.
template <class Request, class List>
std::vector<std::string> written_options(Request request, const List& list) {
  const auto written = [&](Request& asked) {
    std::vector<std::vector<std::string>> options;
    list(asked, [&](const char* option, auto& value, const char* /*type*/, const char* /*help*/) {
      if constexpr (std::is_same_v<decltype(value), bool&>)
        options.push_back(value ? std::vector<std::string>{option} : std::vector<std::string>{});
      else
        options.push_back({option, fmt::format("{}", value)});
    });
    return options;
  };
  Request usual;
  const auto stated = written(request), otherwise = written(usual);
  std::vector<std::string> words{request.scenario};
  for (const std::string& override_text : request.overrides) words.insert(words.end(), {"--set", override_text});
  for (std::size_t i = 0; i < stated.size(); ++i)
    if (stated[i] != otherwise[i]) words.insert(words.end(), stated[i].begin(), stated[i].end());
  return words;
}

}  // namespace panpipe::exec
