// What a block is for, by the frames of the program that allocated it.
#pragma once

#include <string>

#include "base/input/pickle.hpp"
#include "jobs/memory/measured_memory.hpp"

namespace panpipe::jobs {

struct AllocatedAt {
  MemoryRole role = MemoryRole::Unknown;
  std::string place;
};

// `frames`: from the innermost on, as a snapshot has them. `history`: others of it have frames of Python, so that a block without
// them was made by autograd's threads.
AllocatedAt allocated_at(const Pickle& pickle, const PickleValue& frames, bool history);

}  // namespace panpipe::jobs
