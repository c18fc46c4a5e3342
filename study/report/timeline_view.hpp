// The drawing of one or two steps that can be zoomed: a canvas, its data, its script. Passes of a rank with transfers and memory
// under them; with two results each rank has both, one below the other, on one axis of time.
#pragma once

#include <string>
#include <vector>

#include "present/page/page.hpp"
#include "present/result/result_document.hpp"

namespace panpipe {

// Results must have timelines. `names`: one per result ("simulated").
void add_timeline_view(page::Page& page, const std::vector<const ResultDocument*>& results,
                       const std::vector<std::string>& names);

const char* timeline_script();  // expects the data in `view`

}  // namespace panpipe
