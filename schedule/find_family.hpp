// The row of a family by its name, and what its options are without being given.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace panpipe {

// nullptr where there is none of that name.
const ScheduleFamily* find_family(std::string_view name);
// None where the family has no such option.
std::optional<std::string> default_option(const ScheduleFamily& family, std::string_view key);
// Whether there is a family of that name, and it has the option.
bool has_option(std::string_view family, std::string_view key);

}  // namespace panpipe
