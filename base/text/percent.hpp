// A share as people read it.
#pragma once

#include <fmt/format.h>

#include <string>

namespace panpipe {

inline std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace panpipe
