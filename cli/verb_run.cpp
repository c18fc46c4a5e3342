// panpipe run: train for real, by the executor.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/verbs.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::cli {

void add_run_verb(CLI::App& sub, std::function<int()>& run) {
  auto arguments = std::make_shared<std::vector<std::string>>();
  sub.add_option("ARGUMENTS", *arguments, "scenario and options of the run");
  sub.allow_extras();
  run = [arguments] { return exec::launch(*arguments); };
}

}  // namespace panpipe::cli
