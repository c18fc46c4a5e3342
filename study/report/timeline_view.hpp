// A zoomable drawing of one or two steps: a canvas, its data, its script. Each rank shows its passes, with transfers and memory
// below. With two results each rank shows both, one above the other, on one time axis.
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
