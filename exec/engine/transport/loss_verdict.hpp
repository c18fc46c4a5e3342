// Which rank of a run is lost, judged by what the ranks reported about themselves. No LibTorch here.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace panpipe::exec {

// An operation that devices of several ranks run together, and that a rank's device has reached.
struct Standing {
  std::string id;                              // the same on all of them
  int members = 2;                             // number of ranks
  std::string sentence;                        // on one of them: "rank 1 is stuck: its message to rank 0"; else empty
  std::chrono::steady_clock::duration time{};  // time since the device reached it
};

// What is known of a rank.
struct RankState {
  std::chrono::steady_clock::time_point received = std::chrono::steady_clock::now();  // its last message
  std::chrono::steady_clock::duration quiet{};                                        // without progress, at that time
  bool waits = false;                                                                 // for another rank
  bool left = false;                                                                  // with a goodbye
  bool through = false;                                                               // needs the others no more
  std::string at = "the start";
  std::vector<Standing> operations;  // of its device
};

// A rank's report about itself, and what it changes of a known state: at, waits, quiet, operations.
nlohmann::json report_of(int rank, const RankState& state);
void take_report(const nlohmann::json& report, RankState& state);

struct Verdict {
  std::string loss;                             // the sentence for the user; empty: nobody is lost
  std::chrono::steady_clock::duration quiet{};  // how long no rank has made progress
  std::string table;                            // what each rank does
};
// Rank 0 is the one that judges: it cannot be unheard. A wait, an action or an operation is too long after `timeout`.
Verdict judge(const std::map<int, RankState>& ranks, std::chrono::steady_clock::time_point now,
              std::chrono::steady_clock::duration timeout);

}  // namespace panpipe::exec
