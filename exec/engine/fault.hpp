// Faults on purpose, for tests and for trying out what happens: PANPIPE_FAULT="rank=1,step=2,action=0B3,kind=kill".
// The one place that reads the variable. `step` counts from 0, warm-up included; without it every step.
//   kill   the process is killed, as by the system when memory runs out        stop   it is stopped (SIGSTOP)
//   stuck  the rank does nothing any more, but its process lives               fail   an operator throws
//   nan    the loss becomes not a number                                       spin   it computes for ever, which looks like work
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace panpipe::exec {

class Fault {
 public:
  // What the environment asks of this rank; InputError when it cannot be read.
  explicit Fault(int rank);
  Fault(int rank, const std::string& text);

  // Called before each action. Does not return for kill, stuck and spin, throws for fail.
  void before(const std::string& action, std::int64_t step) const;
  // Called with the loss after a forward action: the loss, or not a number.
  double loss(const std::string& action, std::int64_t step, double value) const;

 private:
  bool here(const std::string& action, std::int64_t step) const;
  bool active_ = false;
  std::string action_, kind_;
  std::optional<std::int64_t> step_;
};

}  // namespace panpipe::exec
