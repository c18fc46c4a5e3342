// Orders as torch.distributed.pipelining has them: by name, or as a file. Internal to this folder.
#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace panpipe::jobs {

struct TorchOrder {
  std::string name;  // "Interleaved1F1B", as get_schedule_class takes it; empty: none has this order
  std::string csv;   // PyTorch's form, lines end with \n; also where there is a name
};

// InputError where PyTorch's file cannot hold the order either.
TorchOrder torch_order(const Schedule& schedule);

}  // namespace panpipe::jobs
