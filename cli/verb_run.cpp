// panpipe run: train for real, by the executor.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/option_checks.hpp"
#include "cli/verbs.hpp"
#include "exec/launch/launch.hpp"
#include "exec/launch/run_options.hpp"

namespace panpipe::cli {

void add_run_verb(CLI::App& sub, std::function<int()>& run) {
  auto request = std::make_shared<exec::RunRequest>();
  exec::add_run_options(sub, *request);
  sub.get_option("--threads")->check(at_least_one);
  run = [request] {
    require_readable_again(request->scenario);
    return exec::launch(*request);
  };
}

}  // namespace panpipe::cli
