// What `panpipe schedule --lower` and `--semantics` do: orders with their communication, run under each kind of transfer.
#pragma once

#include <string>
#include <vector>

#include "schedule/semantics.hpp"

namespace panpipe {

// "send-recv", "unshard", or both with a comma between; InputError for anything else.
struct CommunicationChoice {
  bool unshard = false, transfers = false, late_receives = false;
};
CommunicationChoice parse_lowering(const std::string& text, bool defer_receives);
Schedule lowered(const Schedule& schedule, const CommunicationChoice& lowering);

// "all", or one name; InputError for anything else.
std::vector<TransferSemantics> parse_semantics(const std::string& text);

// A legal order under each of the semantics; one without sends and receives gets them, with early and with late receives.
struct TransferReport {
  std::string text, json;
  bool finishes = true;  // under all of them
};
TransferReport report_transfers(const Schedule& schedule, const PassCosts& costs, const std::vector<TransferSemantics>& asked);

}  // namespace panpipe
