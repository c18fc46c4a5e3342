// Looks up a family by name, and the defaults of its options.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.hpp"

namespace panpipe {

// nullptr if no family has this name.
const ScheduleFamily* find_family(std::string_view name);
// nullopt if the family lacks this option.
std::optional<std::string> default_option(const ScheduleFamily& family, std::string_view key);
// True if the family exists and has the option.
bool has_option(std::string_view family, std::string_view key);
// Throws InputError for an unknown family, and for options that neither it nor all families have. Values are not read.
void check_options(std::string_view family, const ScheduleOptions& options);

}  // namespace panpipe
