// A profile: the executor's measurements on a machine, by unit and by link. The cost model uses them instead of its formulas. A
// readable file with provenance, written by `panpipe profile`; docs/models/profile.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// A movable unit, per microbatch. Times are medians over the ranks that computed side by side.
struct ProfiledUnit {
  std::string name;
  std::string structure;  // from its operators and shapes: equal structures cost the same
  Duration forward{0};
  Duration backward{0};  // both gradients together
  Duration input_gradient{0}, weight_gradient{0};
  Bytes saved{0};            // made by the unit and kept for its backward
  std::vector<int> keeps;    // outside tensors that it also keeps, as indices by first use
  Bytes kept_for_weight{0};  // bytes kept between the input gradient and the weight gradient, including outside tensors
  Bytes temporary{0};        // peak above the kept bytes while a pass runs
  double spread = 0;         // of forward + backward over the repetitions: (upper - lower quartile) / median
  int operators = 0;
};

struct ProfiledTransfers {
  std::string transport;
  int from = 0, to = 0;  // ranks
  TransferTable table;   // one-way times
};

struct ProfiledCollective {
  std::string kind;  // "all_reduce"
  int members = 0;
  TransferTable table;
};

struct ProfiledOptimizer {
  std::string name;             // "adam"
  std::int64_t parameters = 0;  // elements updated
  Duration time{0};
};

struct Profile {
  std::string file;                             // as named; empty if not read from a file
  std::map<std::string, std::string> measured;  // provenance: host, processor, ranks, threads, versions, date, scenario ...
  Bandwidth memory_bandwidth{0};                // of a copy, counting bytes read and written
  Duration launch{0};                           // host time per operator
  ProfiledOptimizer optimizer;
  std::vector<ProfiledUnit> units;
  std::vector<ProfiledTransfers> transfers;
  std::vector<ProfiledCollective> collectives;

  // The unit with this name and structure, else another unit with this structure, else nullptr.
  const ProfiledUnit* unit(const std::string& name, const std::string& structure) const;
  // The table for these ranks, else the first table; nullptr if there is none.
  const TransferTable* transfer(int from, int to) const;
  // The table for this kind and number of members; nullptr if there is none.
  const TransferTable* collective(const std::string& kind, int members) const;
};

// Throws InputError with all faults.
Profile load_profile(const std::string& path);
Profile parse_profile(const std::string& text, const std::string& name);
// The text of a file that reads back as the same numbers.
std::string to_yaml(const Profile& profile);

}  // namespace panpipe
