// Spans as a rank sends them to rank 0: one column per field, by name. One list of fields for both ends.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe::exec {

// Without device and time alone, which rank 0 knows or nobody does.
nlohmann::json columns_of(const std::vector<Span>& spans);

// The spans of rank `rank`. Throws MachineError where its fields are others than this program's.
std::vector<Span> spans_of(const nlohmann::json& columns, int rank);

}  // namespace panpipe::exec
