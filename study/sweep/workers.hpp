// Runs work in separate processes instead of threads: a simulation's clock is per process (docs/decisions/0004), and a crash in
// one cell must not stop the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace panpipe::study {

struct Workers {
  int count = 1;
  std::function<std::string(std::size_t job)> work;  // runs in a worker
  std::function<void(std::size_t job, const std::string& answer)>
      done;  // called in this process, in the order in which answers arrive
  std::function<void(std::size_t job, const std::string& how)> died;  // called in this process: "signal 11"
  const std::atomic<bool>* stop = nullptr;                            // when set, workers are ended at once
};

// Runs each job once. Returns false if it was stopped. It forks, so no other thread may run. Throws MachineError if processes
// cannot be started.
bool run_jobs(const std::vector<std::size_t>& jobs, const Workers& workers);

}  // namespace panpipe::study
