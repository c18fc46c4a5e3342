// A replayed allocator's history in the form of torch.cuda.memory._dump_snapshot, which pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py read (docs/models/memory-measured.md, Snapshots).
#pragma once

#include <string>

#include "costmodel/lowering/allocation_history.hpp"

namespace panpipe::present {

// The bytes of a pickle: `segments` as they are when the last replayed step has ended, `device_traces` with one device,
// `allocator_settings`, and under `panpipe` rank, scale and peaks. Sizes in the trace are those of blocks, so that the highest
// point of the curve is the answer's allocated memory; `requested_size` of a block is what its tensor asked for. All are
// multiplied by the history's scale. `time_us` numbers the events.
std::string to_memory_snapshot(const AllocationHistory& history);

}  // namespace panpipe::present
