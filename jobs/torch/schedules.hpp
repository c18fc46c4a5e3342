// Orders of torch.distributed.pipelining, by name or as a file. Internal to this folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace panpipe::jobs {

// A schedule that torch.distributed.pipelining runs: one chain, whole sequences.
struct TorchSchedule {
  std::string_view family;     // Panpipe's name
  std::string_view name = {};  // the class without the prefix Schedule, as accepted by get_schedule_class; empty: from a file
  int stages = 1;              // per rank of a class, unless stated elsewhere
  bool loop = true;            // stage s is on rank s mod ranks
};

std::span<const TorchSchedule> torch_schedules();

struct TorchOrder {
  std::string name;  // "Interleaved1F1B", as accepted by get_schedule_class; empty: no class has this order
  std::string csv;   // PyTorch's format with lines ending in \n; set even if there is a name
};

// Throws InputError if PyTorch's file format cannot express the order either.
TorchOrder torch_order(const Schedule& schedule);

}  // namespace panpipe::jobs
