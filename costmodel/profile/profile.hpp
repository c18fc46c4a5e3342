// A profile: what the executor measured on a machine, unit by unit and link by link. The cost model uses it in place of its
// formulas. A readable file with provenance (docs/models/profile.md has the format); written by `panpipe profile`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "costmodel/cluster/cluster.hpp"

namespace panpipe {

// A movable unit, per microbatch. Times are medians on the ranks that computed side by side.
struct ProfiledUnit {
  std::string name;
  std::string structure;  // of its operators and shapes: equal structures cost the same
  Duration forward{0};
  Duration backward{0};  // both gradients at once
  Duration input_gradient{0}, weight_gradient{0};
  Bytes saved{0};            // made by the unit and kept for its backward
  std::vector<int> keeps;    // tensors from outside that it keeps too: which of those it uses, by first use
  Bytes kept_for_weight{0};  // still kept between the input gradient and the weight gradient, tensors from outside included
  Bytes temporary{0};        // peak over what was kept while a pass runs
  double spread = 0;         // of forward + backward, over the repetitions: (upper - lower quartile) / median
  int operators = 0;
};

struct ProfiledTransfers {
  std::string transport;
  int from = 0, to = 0;  // ranks
  TransferTable table;   // one way
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
  std::string file;                             // as read; empty for one that was just measured
  std::map<std::string, std::string> measured;  // provenance: host, processor, ranks, threads, versions, date, scenario ...
  Bandwidth memory_bandwidth{0};                // copying, bytes read and written
  Duration launch{0};                           // host time per operator
  ProfiledOptimizer optimizer;
  std::vector<ProfiledUnit> units;
  std::vector<ProfiledTransfers> transfers;
  std::vector<ProfiledCollective> collectives;

  // The unit of this name and structure, else another one of this structure, else nullptr.
  const ProfiledUnit* unit(const std::string& name, const std::string& structure) const;
  // Between these ranks, else the first table there is; nullptr when there is none.
  const TransferTable* transfer(int from, int to) const;
  // Of this kind over so many members; nullptr when there is none.
  const TransferTable* collective(const std::string& kind, int members) const;
};

// Throws InputError with everything that is wrong.
Profile load_profile(const std::string& path);
Profile parse_profile(const std::string& text, const std::string& name);
// The file's text: reads back to the same numbers.
std::string to_yaml(const Profile& profile);

}  // namespace panpipe
