// Orders as torch.distributed.pipelining has them: by name, or as a file. Internal to this folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace panpipe::jobs {

// A schedule of torch.distributed.pipelining.
struct TorchSchedule {
  std::string_view family;  // ours
  std::string_view name;    // the class without the word Schedule, as get_schedule_class takes it
  int stages;               // of a rank, where nothing else says it
};

std::span<const TorchSchedule> torch_schedules();

struct TorchOrder {
  std::string name;  // "Interleaved1F1B", as get_schedule_class takes it; empty: none has this order
  std::string csv;   // PyTorch's form, lines end with \n; also where there is a name
};

// InputError where PyTorch's file cannot hold the order either.
TorchOrder torch_order(const Schedule& schedule);

}  // namespace panpipe::jobs
