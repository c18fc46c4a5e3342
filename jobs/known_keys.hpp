// Degrees and formats that trainers have and that the scenario's reader may not know yet: the one place that decides whether an
// importer writes the key or tells what is missing.
#pragma once

#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

// Whether this build's scenarios have `parallel.context`, `parallel.expert`, `precision: fp8`, `offload`.
bool scenario_has_context();
bool scenario_has_expert();
bool scenario_has_fp8();
bool scenario_has_offload();

// What a job is told that needs them: "is 2; predictions do not know context parallelism".
std::string no_context(int degree);
std::string no_expert(int degree);
constexpr const char* kPredictWithout = "predict the job without it";
constexpr const char* kPredictWithoutExperts = "predict the job without it: every rank then holds all experts";

// A degree above 1 as a key, or false where scenarios have none; 1 needs no key. `exchange` is how keys and values travel: ring,
// all-gather, ulysses; empty: not stated.
bool put_context(ImportedJob& job, int degree, const std::string& origin, const std::string& exchange = "");
// `tensor` is the degree at which experts are cut; 0: as the rest.
bool put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin);
// Rows that an expert computes, over an even share of the tokens; `padded`: empty ones too.
void put_capacity(ImportedJob& job, double factor, bool padded, const std::string& origin);
// `format` is fp8 or mxfp8: products in it, or bf16 with the fact told.
void put_fp8(ImportedJob& job, const std::string& format, const std::string& origin);

// What lies in the host's memory: `part` is optimizer or parameters, `place` cpu or another, which is told. Of parameters a key
// is written under ZeRO 3 with replicas alone, where they are gathered.
void put_offload(ImportedJob& job, const std::string& part, const std::string& place, const std::string& origin);

}  // namespace panpipe::jobs
