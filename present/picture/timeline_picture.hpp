// Pictures of predicted and measured steps (schedule.svg in the folder of `-o DIR`).
#pragma once

#include <optional>
#include <string>

#include "present/picture/picture.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// The thin lane that spans of this lane are drawn in; none for passes and launches.
std::optional<StripKind> strip_of(Lane lane);

// `name` stands first in the title: the scenario's file, say. Devices that copy another's spans are left out.
Picture picture_of(const Timeline& timeline, const std::string& name);

}  // namespace panpipe
