// panpipe doctor: what this machine has, and what each verb can therefore do.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/doctor_text.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

namespace panpipe::cli {

void add_doctor_verb(CLI::App& sub, std::function<int()>& run) {
  auto json = std::make_shared<bool>(false);
  sub.add_flag("--json", *json, "print the document panpipe-doctor/1");
  run = [json] {
    const Machine machine = look_at_machine();
    print(*json ? doctor_json(machine) : doctor_text(machine, style_of_output()));
    return 0;
  };
}

}  // namespace panpipe::cli
