// Spans in the form that a rank sends to rank 0: one named column per field. Both ends share one list of fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "costmodel/timeline/timeline.hpp"

namespace panpipe::exec {

// Without device and time alone, which rank 0 knows or which are unknown.
nlohmann::json columns_of(const std::vector<Span>& spans);

// The spans of rank `rank`. Throws MachineError if its fields differ from this program's.
std::vector<Span> spans_of(const nlohmann::json& columns, int rank);

}  // namespace panpipe::exec
