// How the watches of a run find each other: rank 0 listens, the others connect, and both sides of each connection prove that they
// know the run's token without sending it. Other connections to the port are dropped. No LibTorch here.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "exec/engine/transport/json_line.hpp"

namespace panpipe::exec {

// Listeners of rank 0: on a port chosen by the system, on all of its addresses or only on one; on `port`, if it is not 0. Throw
// MachineError.
Handle listen_anywhere(int& port);
Handle listen_at(const std::string& host, int& port);

// Rank 0: one connection per other rank. Throws MachineError with the missing ranks after the deadline.
std::map<int, Line> accept_ranks(const Handle& listener, int size, const std::string& token,
                                 std::chrono::steady_clock::duration deadline);

// The other ranks: a connection to rank 0. Throws MachineError if nothing answers within the deadline, or if what answers is not
// rank 0 of this run.
Line connect_to_first_rank(int rank, const std::string& host, int port, const std::string& token,
                           std::chrono::steady_clock::duration deadline);

// The handshake over such a connection. Returns false if the other side does not know the token, closes the connection, or takes
// longer than `end`.
bool introduce(Line& line, int rank, const std::string& token, std::chrono::steady_clock::time_point end);

}  // namespace panpipe::exec
