// Writes the files of a result into a folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files/files_read.hpp"
#include "costmodel/prediction/experiment.hpp"
#include "present/result/result.hpp"
#include "present/result/result_files.hpp"

namespace panpipe::present {

// Files that were read, with their SHA-256.
std::vector<std::pair<std::string, std::string>> hashes_of(const FilesRead& files);

// Collects version, input files, and seed. `libraries`: those used, with versions.
ResultContext result_context(const Experiment& experiment, const std::string& scenario_file,
                             std::vector<std::pair<std::string, std::string>> hashes,
                             std::vector<std::pair<std::string, std::string>> libraries, double wall_s);

// Writes result.json, trace.json, scenario.yaml, plan.yaml, report.txt and schedule.svg into the folder, which is created if
// needed. Throws MachineError if a file cannot be written; no file is left half-written. Returns sentences that report the files.
// A timeline of more than kMostSpans is written only with `all_spans`: a hundred thousand microbatches make gigabytes, which no
// viewer opens. Then there is no trace.json, and result.json holds the figures alone.
constexpr std::size_t kMostSpans = 500'000;
std::string write_results(const Experiment& experiment, const Plan& plan, const Timeline& timeline, const Metrics& figures,
                          const ResultContext& context, const std::string& notes, const std::string& folder,
                          bool all_spans = true);

// Checks for the same faults before the computation. Call it once the scenario and the plan are read. Throws like check_outputs()
// (base/files/files_write.hpp).
void check_result_files(const std::string& folder);

}  // namespace panpipe::present
