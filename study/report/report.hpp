// One page of a step: predicted, measured, or two of them over each other.
#pragma once

#include <string>
#include <vector>

#include "present/result/result_document.hpp"

namespace panpipe {

struct ReportInput {
  ResultDocument result;
  std::string scenario, plan;  // texts of scenario.yaml and plan.yaml beside the result; empty when they are not there
};

// A result.json, or a folder of `-o DIR`. InputError as read_result.
ReportInput read_report_input(const std::string& path);

// Self-contained HTML, of one or two results. Of two plans that differ only the metrics stand side by side.
std::string to_report_page(const std::vector<ReportInput>& inputs);

}  // namespace panpipe
