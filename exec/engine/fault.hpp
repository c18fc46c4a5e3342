// Deliberate faults for tests and experiments: PANPIPE_FAULT="rank=1,step=2,action=0B3,kind=kill". Only this class reads the
// variable. `step` counts from 0, including warm-up; without it the fault applies to every step.
//   kill   kills the process, like the system when memory runs out           stop   stops it (SIGSTOP)
//   stuck  the rank does nothing more, but its process lives                 fail   an operator throws
//   nan    the loss becomes NaN                                              spin   the rank computes forever, which looks like
//   work
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

class Fault {
 public:
  // Reads the faults for this rank from the environment. Throws InputError for malformed text.
  explicit Fault(int rank);
  Fault(int rank, const std::string& text);

  // Called before each action. Does not return for kill, stuck and spin; throws for fail.
  void before(const std::string& action, std::int64_t step) const;
  // Called with the loss after a forward action; returns the loss or NaN.
  double loss(const std::string& action, std::int64_t step, double value) const;

 private:
  bool here(const std::string& action, std::int64_t step) const;
  bool active_ = false;
  std::string action_, kind_;
  std::optional<std::int64_t> step_;
};

}  // namespace panpipe::exec
