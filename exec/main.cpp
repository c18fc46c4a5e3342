// panpipe-exec: the ranks of a run. Started by `panpipe run`, or by torchrun, srun or mpirun through it.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "base/files/input_registry.hpp"
#include "base/files/standard_output.hpp"
#include "exec/engine/profile/execute_device.hpp"
#include "exec/engine/profile/execute_profile.hpp"
#include "exec/engine/profile/host_copies.hpp"
#include "exec/engine/program/execute.hpp"
#include "exec/engine/program/execute_contract.hpp"
#include "exec/engine/program/failure.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/launch/device_request.hpp"
#include "exec/launch/profile_options.hpp"
#include "exec/launch/run_options.hpp"
#include "exec/launch/selftest_parts.hpp"

namespace {

using namespace panpipe;

// The first Ctrl-C asks a run for an orderly end at the next step, the second ends the process at once.
void on_stop(int) {
  if (exec::stop_requested()) _exit(130);
  exec::request_stop();
}

void on_stop_of_profile(int) { exec::interrupt_profile(); }

void stop_by(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void catch_signals() {
  stop_by(on_stop);
  // A file that may not grow is an error to report, not a signal.
  signal(SIGXFSZ, SIG_IGN);
  // A connection or a pipe whose other end is gone likewise.
  signal(SIGPIPE, SIG_IGN);
}

// Activations come and go with every pass. By default the C library gives their memory back to the system each time and takes it
// anew, page by page: up to a third of a pass with large results (docs/models/measuring.md).
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest it takes
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

int run(int argc, char** argv) {
  CLI::App app{"Runs a plan. `panpipe run` starts it; its options are those of `panpipe run`.", "panpipe-exec"};
  app.require_subcommand(1, 1);
  exec::RunRequest request;
  CLI::App* verb = app.add_subcommand("run", "train for real");
  exec::add_run_options(*verb, request);
  exec::ProfileRequest profile_request;
  CLI::App* profile = app.add_subcommand("profile", "measure this machine");
  exec::add_profile_options(*profile, profile_request);
  exec::ContractRequest contract_request;
  CLI::App* contract = app.add_subcommand("contract", "try the rules that a transport keeps");
  exec::add_contract_options(*contract, contract_request);
  exec::DeviceRequest device_request;
  CLI::App* device = app.add_subcommand("device", "measure a card, or this CPU");
  exec::add_device_options(*device, device_request);
  const CLI::App* copies = app.add_subcommand("copies", "measure copies between the host and its GPUs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    const int code = app.exit(asked, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    const std::string verb_asked = argc > 1 ? argv[1] : "";
    const std::string name = verb_asked == "profile"    ? "panpipe profile"
                             : verb_asked == "contract" ? "panpipe-exec contract"
                                                        : "panpipe run";
    return exec::report(name + ": error: " + error.what() + "\n  see " + name + " --help", static_cast<int>(ExitCode::Input));
  }
  if (copies->parsed()) return exec::execute_copies();
  if (device->parsed()) return exec::execute_device(device_request);
  if (contract->parsed()) return exec::execute_contract(contract_request, exec::world_of_environment());
  if (profile->parsed()) {
    stop_by(on_stop_of_profile);
    exec::check_profile_options(profile_request);
    return exec::execute_profile(profile_request, exec::world_of_environment());
  }
  exec::check_run_options(request);
  return exec::execute(request, exec::world_of_environment());
}

int run_to_exit_code(int argc, char** argv) {
  try {
    const InputRegistry inputs;
    return run(argc, argv);
  } catch (...) {
    const exec::Failure failure = exec::describe_failure(std::current_exception(), -1, "");
    return exec::report(failure.text, static_cast<int>(failure.code));
  }
}

}  // namespace

int main(int argc, char** argv) {
  guard_standard_streams();
  catch_signals();
  keep_freed_memory();
  return with_standard_output(run_to_exit_code(argc, argv), [](const std::string& why) {
    exec::report("panpipe: this machine cannot: " + why, static_cast<int>(ExitCode::MachineCannot));
  });
}
