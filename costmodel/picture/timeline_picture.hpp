// Pictures of predicted and measured steps (schedule.svg in the folder of `-o DIR`).
#pragma once

#include <string>

#include "costmodel/picture/picture.hpp"
#include "costmodel/timeline/timeline.hpp"

namespace panpipe {

// `name` stands first in the title: the scenario's file, say. Devices that copy another's spans are left out.
Picture picture_of(const Timeline& timeline, const std::string& name);

}  // namespace panpipe
