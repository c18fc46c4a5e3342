// Exports a plan as nanotron's configuration.
#pragma once

#include <vector>

#include "jobs/edit/document_edits.hpp"
#include "jobs/export.hpp"

namespace panpipe::jobs {

// What a plan decides, by nanotron's keys.
std::vector<Setting> nanotron_plan_settings(const ExportRequest& request);

// The plan's cuts, where nanotron makes others; empty: the same.
std::string other_cuts_than_nanotrons(const ExportRequest& request);

ExportedJob export_nanotron(const ExportRequest& request);

}  // namespace panpipe::jobs
