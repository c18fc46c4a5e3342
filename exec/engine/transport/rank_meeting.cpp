#include "exec/engine/transport/rank_meeting.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/transport/job_secret.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Steady = std::chrono::steady_clock;

// Connections of which nobody knows yet whose they are: enough for all ranks of a run at once. Then the oldest go.
constexpr std::size_t kMostNewConnections = 1024;
constexpr std::size_t kLongestIntroduction = 1024;  // bytes; a rank introduces itself in less than 200

// The value under a key, if it is of that type: a document from a foreign connection may hold anything.
std::string text_in(const json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : std::string();
}
std::int64_t number_in(const json& document, const char* key, std::int64_t otherwise) {
  const auto found = document.find(key);
  return found != document.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

// The proof that a rank sends to rank 0, and rank 0 to it. Each side has chosen one of the two numbers, so no proof can be
// replayed.
std::string proof(const std::string& token, const char* of, std::int64_t rank, const std::string& challenge,
                  const std::string& nonce) {
  return keyed_hash(token, fmt::format("{} {} {} {}", of, rank, challenge, nonce));
}

}  // namespace

Handle listen_at(const std::string& host, int& port) {
  Handle listener = listener_at(host, port);
  if (!listener.open()) throw MachineError(fmt::format("no TCP port can be opened at {} for the ranks", host));
  return listener;
}

Handle listen_anywhere(int& port) {
  for (const char* any : {"::", "0.0.0.0"})  // the second on a machine without IPv6
    if (Handle listener = listener_at(any, port); listener.open()) return listener;
  throw MachineError("no TCP port can be opened for the ranks to watch each other");
}

bool introduce(Line& line, int rank, const std::string& token, Steady::time_point end) {
  const std::string nonce = random_token();
  std::string challenge;
  for (bool ended = false; !ended && Steady::now() < end;) {
    pollfd wait{line.socket(), POLLIN, 0};
    poll(&wait, 1, 20);
    for (const json& document : line.receive(ended)) {
      if (!challenge.empty()) return equal_secrets(text_in(document, "welcome"), proof(token, "welcome", rank, challenge, nonce));
      challenge = text_in(document, "challenge");
      if (challenge.empty()) return false;
      line.send({{"hello", rank}, {"nonce", nonce}, {"proof", proof(token, "rank", rank, challenge, nonce)}});
    }
  }
  return false;
}

std::map<int, Line> accept_ranks(const Handle& listener, int size, const std::string& token, Steady::duration deadline) {
  const auto end = Steady::now() + deadline;
  std::map<int, Line> lines;
  struct NewConnection {
    Line line;
    std::string challenge;
  };
  std::deque<NewConnection> new_connections;
  while (static_cast<int>(lines.size()) + 1 < size) {
    if (Steady::now() > end) {
      std::string missing;
      for (int rank = 1; rank < size; ++rank)
        if (!lines.count(rank)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
      throw MachineError(
          fmt::format("rank 0 waited {:.3g} s for the others' connections; missing: {} (a firewall between the hosts?)",
                      in_seconds(deadline), missing));
    }
    pollfd wait{listener.get(), POLLIN, 0};
    if (poll(&wait, 1, 10) == 1) {
      const int socket = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) {
        new_connections.push_back({Line(socket), random_token()});
        new_connections.back().line.send({{"challenge", new_connections.back().challenge}});
      }
      if (new_connections.size() > kMostNewConnections) new_connections.pop_front();
    }
    for (NewConnection& connection : new_connections) {
      bool ended = false;
      const std::vector<json> documents = connection.line.receive(ended, kLongestIntroduction);
      if (documents.empty() && !ended) continue;
      const std::int64_t rank = documents.empty() ? -1 : number_in(documents.front(), "hello", -1);
      const std::string nonce = documents.empty() ? "" : text_in(documents.front(), "nonce");
      if (rank >= 1 && rank < size && !lines.count(static_cast<int>(rank)) &&
          equal_secrets(text_in(documents.front(), "proof"), proof(token, "rank", rank, connection.challenge, nonce))) {
        connection.line.send({{"welcome", proof(token, "welcome", rank, connection.challenge, nonce)}});
        lines[static_cast<int>(rank)] = std::move(connection.line);
      }
      connection.line.close();
    }
    std::erase_if(new_connections, [](const NewConnection& connection) { return !connection.line.open(); });
  }
  return lines;
}

Line connect_to_first_rank(int rank, const std::string& host, int port, const std::string& token, Steady::duration deadline) {
  const auto end = Steady::now() + deadline;
  std::optional<Line> line;
  bool known = false;
  do {  // rank 0 may have dropped it among many foreign connections
    line = Line::connect(host, port, std::max<Steady::duration>(end - Steady::now(), 1ms));
    known = line && introduce(*line, rank, token, end);
  } while (!known && Steady::now() < end && (std::this_thread::sleep_for(20ms), true));
  if (!line)
    throw MachineError(fmt::format("rank {} cannot reach rank 0 at {} port {} within {:.3g} s (a firewall between the hosts?)",
                                   rank, host, port, in_seconds(deadline)));
  if (!known)
    throw MachineError(
        fmt::format("rank {} reached {} port {}, but what answers there did not show within {:.3g} s that it is "
                    "rank 0 of this run",
                    rank, host, port, in_seconds(deadline)));
  return std::move(*line);
}

}  // namespace panpipe::exec
