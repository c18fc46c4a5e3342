// A zoomable drawing of one or two steps: a canvas, its data, its script. Each rank shows its passes, with transfers and memory
// below. With two results each rank shows both, one above the other, on one time axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "present/page/page.hpp"
#include "present/picture/timeline_picture.hpp"
#include "present/result/result_document.hpp"

namespace panpipe {

// What a page about one or two results lays over each other: the lanes of one pipeline rank. Devices say nothing here, because
// two plans place their ranks on devices in two ways. Where a rank has several lanes, the first of each result goes with the
// first.
struct RankRow {
  std::int32_t rank = 0;
  std::vector<std::optional<DrawnDevice>> of;  // of each result; nullopt: it has no such lane
};
std::vector<RankRow> rows_by_rank(const std::vector<const ResultDocument*>& results);

// Results must have timelines. `names`: one per result ("simulated").
void add_timeline_view(page::Page& page, const std::vector<const ResultDocument*>& results,
                       const std::vector<std::string>& names);

const char* timeline_script();  // expects the data in `view`

}  // namespace panpipe
