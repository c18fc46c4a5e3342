// Transfer semantics: how long sends and receives hold the ranks that run them. An order that finishes under one semantics may
// deadlock under another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

enum class TransferSemantics : std::uint8_t {
  Asynchronous,  // holds no rank: a pass waits for the messages it needs (tagged messages, posted ahead)
  Buffered,      // a send returns at once; a receive holds its rank until the message has arrived
  Blocking,      // rendezvous: a send and its receive hold both ranks until both have started and the message has arrived
  Batched,       // adjacent sends and receives are posted as one group, which holds its rank until all have ended
};
constexpr std::array<TransferSemantics, 4> kTransferSemantics = {TransferSemantics::Asynchronous, TransferSemantics::Buffered,
                                                                 TransferSemantics::Blocking, TransferSemantics::Batched};
std::string_view name_of(TransferSemantics semantics);  // "asynchronous", ...
std::optional<TransferSemantics> find_transfer_semantics(std::string_view name);

struct TransferOutcome {
  bool finishes = false;
  double makespan = 0;                    // of an order that finishes
  std::vector<double> held;               // per rank: time for which sends and receives held it
  std::vector<ScheduleProblem> deadlock;  // the cycle first, then the wait of each further blocked rank
};

// The order must be legal and contain sends and receives. A message takes costs.comm.
TransferOutcome run_transfers(const Schedule& schedule, const PassCosts& costs, TransferSemantics semantics);

}  // namespace panpipe
