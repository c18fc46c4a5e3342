// Keys of a scenario that several trainers' importers write by the same rule.
#pragma once

#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

// A degree above 1 as a key; 1 needs none. `exchange` is how keys and values travel: ring, all-gather, ulysses; empty: not
// stated.
void put_context(ImportedJob& job, int degree, const std::string& origin, const std::string& exchange = "");
// `tensor` is the degree at which experts are cut; 0: as the rest.
void put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin);
// Rows that an expert computes, over an even share of the tokens; `padded`: empty ones too.
void put_capacity(ImportedJob& job, double factor, bool padded, const std::string& origin);

// What lies in the host's memory: `part` is optimizer or parameters, `place` cpu or another, which is told. Of parameters a key
// is written under ZeRO 3 with replicas alone, where they are gathered.
void put_offload(ImportedJob& job, const std::string& part, const std::string& place, const std::string& origin);

}  // namespace panpipe::jobs
