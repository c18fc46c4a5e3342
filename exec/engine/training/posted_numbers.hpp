// Every rank's numbers on every rank, like gathered() (measure/gathered.hpp), but a rank goes on until it needs them.
#pragma once

#include <string>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

class PostedNumbers {
 public:
  // All ranks construct it at the same time, and post in the same order.
  explicit PostedNumbers(Transport& transport);

  struct Posted {
    at::Tensor values;  // [ranks, numbers]
    PendingPtr pending{};
  };
  Posted post(const std::vector<double>& mine) const;
  // By rank. Waits for all of them.
  std::vector<std::vector<double>> wait(const Posted& posted, Clock::duration deadline, const std::string& what) const;

 private:
  Transport& transport_;
  Group all_;
};

}  // namespace panpipe::exec
