// Every rank's value of a kind that JSON holds, in rank order.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// `what` names the wait in messages. `reader`: the only rank that reads them, the others have none; -1: every rank.
template <class Value>
std::vector<Value> gathered(Transport& transport, const Value& mine, Clock::duration deadline, const std::string& what,
                            int reader = -1) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(mine);
  const std::vector<std::string> texts = transport.all_gather(std::string(bytes.begin(), bytes.end()), deadline, what);
  std::vector<Value> all;
  if (reader >= 0 && transport.rank() != reader) return all;
  for (const std::string& text : texts) all.push_back(nlohmann::json::from_cbor(text).get<Value>());
  return all;
}

}  // namespace panpipe::exec
