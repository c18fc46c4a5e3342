// The timeline of the page (web/page/timeline.js) with the picture of one or two steps.
#pragma once

#include <string>
#include <vector>

#include "costmodel/timeline/timeline.hpp"
#include "present/page/page.hpp"

namespace panpipe::study {

// Steps must have spans. `names`: one per step ("simulated").
void add_timeline_view(present::Page& page, const std::vector<const Timeline*>& steps, const std::vector<std::string>& names);

}  // namespace panpipe::study
