// The tables of a report. `name` stands in front of a caption: "simulated: ", or nothing.
#pragma once

#include <string>
#include <vector>

#include "present/page/page_table.hpp"
#include "present/picture/picture_layout.hpp"
#include "study/compare/compare.hpp"

namespace panpipe::study {

present::Table traffic_table(const present::ResultDocument& result, const std::string& name, const present::TimeScale& scale);
// By the time lost to sharing; the busiest ones where there are many.
present::Table links_table(std::vector<LinkContention> links, const std::string& name, const present::TimeScale& scale);

// `names`: of the two results.
present::Table metrics_table(const Comparison& comparison, const std::vector<std::string>& names);
present::Table classes_table(const Comparison& comparison, const std::vector<std::string>& names,
                             const present::TimeScale& scale);

}  // namespace panpipe::study
