// Work in processes of its own. Not threads: a simulation's clock is per process (docs/decisions/0004), and a cell that crashes
// must not take the others with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace panpipe::planner {

struct Workers {
  int count = 1;
  std::function<std::string(std::size_t job)> work;                      // in a worker
  std::function<void(std::size_t job, const std::string& answer)> done;  // here, in the order in which answers come
  std::function<void(std::size_t job, const std::string& how)> died;     // here: "signal 11"
  const std::atomic<bool>* stop = nullptr;                               // set: workers are ended at once
};

// Does the jobs, each once. False when it was stopped. Call it where no other thread runs: it forks. MachineError when processes
// cannot be started.
bool run_jobs(const std::vector<std::size_t>& jobs, const Workers& workers);

}  // namespace panpipe::planner
