// Shares as percentages.
#pragma once

#include <fmt/format.h>

#include <string>

namespace panpipe {

// "85.0 %"; signed: "+1.5 %".
inline std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
inline std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

}  // namespace panpipe
