// A family with options as text: "FAMILY,KEY=VALUE,...", with a comma or another separator.
#pragma once

#include <string>

#include "schedule/schedule.hpp"

namespace panpipe {

struct FamilyText {
  std::string family;
  ScheduleOptions options;
};
// Parses "FAMILY", or with options behind a separator: "FAMILY,KEY=VALUE,...". Throws InputError for anything else, and for an
// option that is given twice. Whether the family exists is another question: check_options.
FamilyText read_family_text(const std::string& text, char separator);

}  // namespace panpipe
