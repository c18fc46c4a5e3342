// Degrees and formats that trainers have and that the scenario's reader may not know yet: the one place that decides whether an
// importer writes the key or tells what is missing.
#pragma once

#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

// Whether this build's scenarios have `parallel.context`, `parallel.expert`, `precision: fp8`.
bool scenario_has_context();
bool scenario_has_expert();
bool scenario_has_fp8();

// A degree above 1 as a key, or false where scenarios have none; 1 needs no key.
bool put_context(ImportedJob& job, int degree, const std::string& origin);
// `tensor` is the degree at which experts are cut; 0: not at all stated.
bool put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin);
// `format` is fp8 or mxfp8: products in it, or bf16 with the fact told.
void put_fp8(ImportedJob& job, const std::string& format, const std::string& origin);

}  // namespace panpipe::jobs
