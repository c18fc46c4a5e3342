// The command line's side of the executor: starts panpipe-exec. Knows no LibTorch.
#pragma once

#include <string>
#include <vector>

#include "exec/launch/run_request.hpp"

namespace panpipe::exec {

// Runs a scenario for real and returns the exit code of the run. One process per device for gloo and nccl, one in all for local;
// started by torchrun, srun or mpirun, this process becomes its one rank. InputError: the request or the scenario is wrong.
// MachineError in words where this build has no executor.
int launch(RunRequest request);

// Starts `command` once per rank, with the environment of a rank and this host as the master, and looks after the processes:
// what they say goes to standard error with the rank in front, rank 0's standard output is ours, Ctrl-C is passed on once and
// ends them the second time, and when one fails the others get `deadline_s` before they are killed; so do all that were asked to
// stop and hang, beyond the time that steps have taken. No process outlives this one.
// Returns the exit code of the run: 0, or that of the rank whose failure explains the others'.
enum class OnInterrupt {
  EndStep,  // the ranks hear it, and end in order
  EndNow,  // rank 0 hears it; when it ends the others are ended. Nothing is kept: 130, unless rank 0 had everything and ends with
           // 0.
};
int run_ranks(const std::vector<std::string>& command, int ranks, double deadline_s,
              OnInterrupt on_interrupt = OnInterrupt::EndStep);
// The sentence of a profile that was ended.
inline constexpr const char* kNoProfile = "panpipe: stopped as asked: no profile was written\n";

// panpipe-exec, with the LibTorch that it will load found (libtorch.hpp). MachineError in words where this build has no executor,
// or this machine no such LibTorch.
std::string executor_program();
// This process becomes the command. MachineError when it cannot be started.
[[noreturn]] void become_program(const std::vector<std::string>& command);

// A line of a rank's final error, for the launcher: it is held back and told once at the end, not once per rank.
inline constexpr char kErrorMark = '\x1e';
// A line of rank 0 between steps: the next begins, or a checkpoint is being written, which takes as long as it takes.
inline constexpr char kStepMark = '\x1d', kWritingMark = '\x1c';
inline constexpr const char* kLaunchedVariable = "PANPIPE_LAUNCHED";           // set for ranks of panpipe run
inline constexpr const char* kMasterSocketVariable = "PANPIPE_MASTER_SOCKET";  // of rank 0: a listening socket

}  // namespace panpipe::exec
