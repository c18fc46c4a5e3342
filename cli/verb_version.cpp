// panpipe version: what --version prints.
#include <CLI/CLI.hpp>

#include "cli/build_info.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_version_verb(CLI::App&, std::function<int()>& run) {
  run = [] {
    print(version_text());
    return 0;
  };
}

}  // namespace panpipe::cli
