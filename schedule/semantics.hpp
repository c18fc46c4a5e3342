// Transfer semantics: how sends and receives hold the ranks that run them. An order that finishes under one semantics may stop
// under another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

enum class TransferSemantics : std::uint8_t {
  Asynchronous,  // nobody is held: a pass waits for the messages it needs (tagged messages, posted ahead)
  Buffered,      // a send leaves its message behind and goes on; a receive holds its rank until the message is there
  Blocking,      // rendezvous: a send and its receive hold both ranks until both are there and the message is over
  Batched,       // sends and receives next to each other are posted as one group, which holds its rank until all are over
};
constexpr std::array<TransferSemantics, 4> kTransferSemantics = {TransferSemantics::Asynchronous, TransferSemantics::Buffered,
                                                                 TransferSemantics::Blocking, TransferSemantics::Batched};
std::string_view name_of(TransferSemantics semantics);  // "asynchronous", ...
std::optional<TransferSemantics> find_transfer_semantics(std::string_view name);

struct TransferOutcome {
  bool finishes = false;
  double makespan = 0;                    // of an order that finishes
  std::vector<double> held;               // per rank: time in which it was held by sends and receives
  std::vector<ScheduleProblem> deadlock;  // the cycle first, then what each further blocked rank waits for
};

// The order must be legal and have sends and receives. A message takes costs.comm.
TransferOutcome run_transfers(const Schedule& schedule, const PassCosts& costs, TransferSemantics semantics);

}  // namespace panpipe
