// panpipe selftest: whether this machine trains as it should, what is wrong, and a report that can be sent in.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/selftest/selftest.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_selftest_verb(CLI::App& sub, std::function<int()>& run) {
  auto request = std::make_shared<SelftestRequest>();
  sub.add_option("--device", request->device, "what to try (default: cuda where there are GPUs, else cpu)")
      ->type_name("cpu|cuda");
  sub.add_option("--cluster", request->cluster,
                 "cluster file that states this machine's links (default: the shipped one of its GPUs)")
      ->type_name("FILE");
  sub.add_option("-o", request->folder, "write the report into this folder (default: panpipe-selftest)")->type_name("DIR");
  sub.add_flag("--quick", request->quick, "a few ranks, a small model, few steps: a quarter of the time");
  sub.add_flag("--json", request->json, "print the document panpipe-selftest/1; lines go to standard error");
  run = [request] { return selftest(*request); };
}

}  // namespace panpipe::cli
