// Scenario keys that several trainers' importers write by the same rule.
#pragma once

#include <string>

#include "jobs/job.hpp"

namespace panpipe::jobs {

// Writes the degree if it is above 1. `exchange` is the exchange of keys and values: ring, all-gather, ulysses; empty: not
// stated.
void put_context(ImportedJob& job, int degree, const std::string& origin, const std::string& exchange = "");
// `tensor` is the tensor-parallel degree of the experts; 0: the same as for the rest.
void put_expert(ImportedJob& job, int degree, int tensor, const std::string& origin);
// `factor`: rows that an expert computes, relative to an even share of the tokens; `padded`: including empty rows.
void put_capacity(ImportedJob& job, double factor, bool padded, const std::string& origin);

// The name of a cut in front of a layer, for `partition`; behind the last layer the head's.
std::string cut_before(int layer, int layers);

// State in the host's memory: `part` is optimizer or parameters; `place` is cpu, and any other value is reported. For parameters
// a key is written only under ZeRO 3 with replicas, where they are gathered.
void put_offload(ImportedJob& job, const std::string& part, const std::string& place, const std::string& origin);

}  // namespace panpipe::jobs
