// Every rank's value of a kind that JSON holds, in rank order, on every rank.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/engine/transport/transport.hpp"

namespace panpipe::exec {

// `what` names the wait in messages.
template <class Value>
std::vector<Value> gathered(Transport& transport, const Value& mine, Clock::duration deadline, const std::string& what) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(nlohmann::json(mine));
  std::vector<Value> all;
  for (const std::string& text : transport.all_gather(std::string(bytes.begin(), bytes.end()), deadline, what))
    all.push_back(nlohmann::json::from_cbor(text).get<Value>());
  return all;
}

}  // namespace panpipe::exec
