// The command line's side of the executor: starts panpipe-exec. Independent of LibTorch.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/run_request.hpp"

namespace panpipe::exec {

// Runs a scenario and returns the exit code of the run. Starts one process per device for gloo and nccl, one in total for local;
// under torchrun, srun or mpirun this process becomes its one rank. Throws InputError for a wrong request or scenario, and
// MachineError with an explanation if this build has no executor.
int launch(RunRequest request);

// Starts `command` once per rank, with a rank's environment and this host as the master, and supervises the processes. Their
// output goes to standard error with the rank in front, except rank 0's standard output. The first Ctrl-C is passed on, the
// second ends them. If one fails, the others get `deadline_s` before they are killed; so do ranks that hang after a stop request,
// beyond the time of a step. No process outlives this one. Returns the exit code of the run: 0, or that of the rank whose failure
// explains the others'.
enum class OnInterrupt {
  EndStep,  // all ranks receive it and end in order
  EndNow,  // rank 0 receives it; when it ends the others are ended. Nothing is kept: 130, unless rank 0 was done and ends with 0.
};
int run_ranks(const std::vector<std::string>& command, int ranks, double deadline_s,
              OnInterrupt on_interrupt = OnInterrupt::EndStep);
// The message of a profile that was stopped.
inline constexpr const char* kNoProfile = "panpipe: stopped as asked: no profile was written\n";

// The path of panpipe-exec, after finding the LibTorch that it will load (libtorch.hpp). Throws MachineError with an explanation
// if this build has no executor, or this machine no suitable LibTorch.
std::string executor_program();
// Replaces this process by the command. Throws MachineError if it cannot be started.
[[noreturn]] void become_program(const std::vector<std::string>& command);

// Marks a line of a rank's final error for the launcher, which prints it once at the end instead of once per rank.
inline constexpr char kErrorMark = '\x1e';
// Marks a line of rank 0 between steps: the next step begins, or a checkpoint is being written, which has no time limit.
inline constexpr char kStepMark = '\x1d', kWritingMark = '\x1c';
inline constexpr const char* kLaunchedVariable = "PANPIPE_LAUNCHED";           // set for ranks of panpipe run
inline constexpr const char* kMasterSocketVariable = "PANPIPE_MASTER_SOCKET";  // for rank 0: a listening socket

}  // namespace panpipe::exec
