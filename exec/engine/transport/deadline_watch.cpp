#include "exec/engine/transport/deadline_watch.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "exec/engine/transport/job_secret.hpp"
#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Steady = std::chrono::steady_clock;

// Below this a change of the byte counters is our own reading of them.
constexpr std::uint64_t kLeastBytes = 4096;
// A loss names who is lost; it comes a little before the waits of the others, who only know what they wait for, give up.
constexpr double kLossShare = 0.85;

std::int64_t milliseconds(Steady::duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

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

// Bytes that read() and write() of this process moved: checkpoints and data files, not sockets.
std::uint64_t bytes_moved() {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::uint64_t value = 0, sum = 0;
  for (int line = 0; line < 2 && file >> key >> value; ++line) sum += value;  // rchar, wchar
  return sum;
}

// The known state of a rank.
struct Seen {
  Steady::time_point received = Steady::now();
  Steady::duration quiet{};  // when it was heard
  bool waits = false, left = false;
  bool through = false;  // needs the others no more
  std::string at = "the start";
  std::vector<Standing> operations;  // of its device
};

}  // namespace

struct Watch::State {
  WatchOptions options;
  Steady::duration interval;
  std::string token;

  std::mutex sending;  // abort() speaks on the caller's thread
  mutable std::mutex lock;
  Seen self;
  Steady::time_point progressed = Steady::now();
  Steady::time_point world_progressed = Steady::now();
  std::string table;          // what the others do, sent by rank 0 when it is quiet
  std::string reason;         // of the loss, once there is one
  std::string reported_loss;  // by rank 0, to be declared
  bool about_input = false;
  std::string device_waits;  // what for
  bool over = false;
  Steady::time_point over_since;
  bool all_are_through = false, all_left = false;
  std::function<void()> all_through;
  std::condition_variable changed;

  std::atomic<bool> leaving{false};
  std::thread thread;

  int listener = -1;
  std::map<int, Line> lines;  // rank 0: by rank; others: to rank 0
  std::map<int, Seen> seen;   // rank 0: by rank, but itself
  bool hub_left = false;
  std::string reported;  // what this rank did when it last reported
  std::chrono::nanoseconds cpu{process_cpu_time()};
  Steady::time_point sampled = Steady::now();
  std::uint64_t moved = bytes_moved();

  explicit State(WatchOptions given) : options(std::move(given)) {
    interval = std::clamp<Steady::duration>(options.deadline / 30, 20ms, 500ms);
  }

  void send(int rank, const json& document) {
    const std::lock_guard hold(sending);
    lines.at(rank).send(document);
  }
  Steady::duration loss_timeout() const { return std::chrono::duration_cast<Steady::duration>(options.deadline * kLossShare); }
  void declare(const std::string& why, bool input = false);
  void end(const std::string& why, bool input);
  void settle();
  void sample();
  Seen own() const;
  json report() const;
  std::string hanging(const std::map<int, Seen>& ranks) const;
  void check_ranks();
  void receive_from_hub();
  void receive_from_ranks();
  void send_report();
  void loop();
  void accept_all();
};

// The run is over. Told to everybody once.
void Watch::State::declare(const std::string& why, bool input) {
  {
    const std::lock_guard hold(lock);
    if (over || all_are_through) return;
    over = true;
    over_since = Steady::now();
    reason = why;
  }
  if (options.rank == 0)
    for (auto& [rank, line] : lines) send(rank, {{"lost", why}, {"input", input}});
  if (options.lost) options.lost(why, input);
}

// On the thread of the caller that ends it.
void Watch::State::end(const std::string& why, bool input) {
  if (options.rank != 0) send(0, {{"abort", why}, {"input", input}});
  declare(input ? why : fmt::format("rank {} ended the run: {}", options.rank, why), input);
}

// Rank 0: does nobody need anybody any more? And has everybody gone?
void Watch::State::settle() {
  const auto all = [this](auto&& is) { return std::all_of(seen.begin(), seen.end(), is); };
  std::function<void()> report_self;
  {
    const std::lock_guard hold(lock);
    if (all_are_through && !all_left && all([](const auto& one) { return one.second.left; })) {
      all_left = true;
      changed.notify_all();
    }
    if (over || all_are_through || !self.through) return;
    if (!all([](const auto& one) { return one.second.through || one.second.left; })) return;
    all_are_through = true;
    report_self = all_through;
  }
  for (auto& [rank, line] : lines) send(rank, {{"leave", true}});
  report_self();
}

// Has this process made progress since the last sample?
void Watch::State::sample() {
  const auto now = Steady::now();
  const auto used = process_cpu_time();
  const std::uint64_t bytes = bytes_moved();
  const double share = std::chrono::duration<double>(used - cpu) / std::chrono::duration<double>(now - sampled);
  const std::lock_guard hold(lock);
  if (!self.waits && device_waits.empty() && (share > kIdleShare || bytes > moved + kLeastBytes)) progressed = now;
  self.quiet = now - progressed;
  cpu = used;
  sampled = now;
  moved = bytes;
}

// This rank's report about itself.
Seen Watch::State::own() const {
  const std::lock_guard hold(lock);
  Seen mine = self;
  mine.received = Steady::now();
  if (device_waits.empty()) return mine;
  mine.waits = true;
  mine.at += fmt::format(", its GPU waiting for {}", device_waits);
  return mine;
}

json Watch::State::report() const {
  const Seen mine = own();
  json operations = json::array();
  for (const Standing& one : mine.operations) operations.push_back({one.id, one.members, one.sentence, milliseconds(one.time)});
  return {{"rank", options.rank},
          {"waits", mine.waits},
          {"quiet", milliseconds(mine.quiet)},
          {"at", mine.at},
          {"operations", std::move(operations)}};
}

// The operation that all whom it takes have been in for longest, where that is too long; else empty.
std::string Watch::State::hanging(const std::map<int, Seen>& ranks) const {
  const auto now = Steady::now();
  struct Attendance {
    int members = 0, present = 0;
    std::string sentence;
    Steady::duration time = Steady::duration::max();  // since the last of them came
  };
  std::map<std::string, Attendance> attendance;
  for (const auto& [rank, one] : ranks)
    for (const Standing& operation : one.operations) {
      Attendance& all = attendance[operation.id];
      all.members = operation.members;
      ++all.present;
      if (!operation.sentence.empty()) all.sentence = operation.sentence;
      all.time = std::min(all.time, operation.time + (now - one.received));
    }
  const Attendance* longest = nullptr;
  for (const auto& [id, one] : attendance)
    if (one.present == one.members && one.time > loss_timeout() && (!longest || one.time > longest->time)) longest = &one;
  if (!longest) return "";
  return fmt::format("{} has stood still between the GPUs for {:.2g} s", longest->sentence, in_seconds(longest->time));
}

// Rank 0: who is lost? And how long has nobody made progress?
void Watch::State::check_ranks() {
  const auto now = Steady::now();
  std::map<int, Seen> all = seen;
  all[0] = own();
  if (const std::string operation = hanging(all); !operation.empty()) return declare(operation);
  auto quiet = Steady::duration::max();
  std::string text;
  for (const auto& [rank, one] : all) {
    if (one.left) continue;
    quiet = std::min(quiet, one.quiet + (now - one.received));
    text += fmt::format("{}rank {} {}: {}", text.empty() ? "" : "; ", rank, one.waits ? "waits" : "is at", one.at);
    if (rank != 0 && now - one.received > loss_timeout())
      return declare(
          fmt::format("rank {} is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached); "
                      "it was last seen at: {}",
                      rank, in_seconds(now - one.received), one.at));
    if (!one.waits && one.quiet > loss_timeout())
      return declare(fmt::format("rank {} is stuck: no progress for {:.2g} s at: {}", rank, in_seconds(one.quiet), one.at));
  }
  {
    const std::lock_guard hold(lock);
    world_progressed = now - quiet;
    table = text;
  }
  json news{{"quiet", milliseconds(quiet)}};
  if (quiet > options.deadline / 2) news["table"] = text;
  for (auto& [rank, line] : lines)
    if (!seen[rank].left) send(rank, news);
}

void Watch::State::receive_from_ranks() {
  for (auto& [rank, line] : lines) {
    Seen& one = seen[rank];
    if (one.left) continue;
    bool ended = false;
    for (const json& document : line.receive(ended)) {
      one.received = Steady::now();
      if (document.contains("bye")) one.left = true;
      if (document.contains("through")) one.through = true;
      if (document.contains("abort")) {
        const std::string why = document.value("abort", "");
        const bool input = document.value("input", false);
        declare(input ? why : fmt::format("rank {} ended the run: {}", rank, why), input);
      }
      if (!document.contains("at")) continue;
      one.quiet = std::chrono::milliseconds(document.value("quiet", 0));
      one.waits = document.value("waits", false);
      one.at = document.value("at", "");
      one.operations.clear();
      for (const json& operation : document.value("operations", json::array()))
        one.operations.push_back(
            {operation.at(0), operation.at(1), operation.at(2), std::chrono::milliseconds(operation.at(3).get<std::int64_t>())});
    }
    if (!ended || one.left) continue;
    one.left = true;
    declare(fmt::format("rank {} is lost: its process ended; it was last seen at: {}", rank, one.at));
  }
}

void Watch::State::receive_from_hub() {
  Line& line = lines.at(0);
  bool ended = false, leave_now = false;
  for (const json& document : line.receive(ended)) {
    const std::lock_guard hold(lock);
    self.received = Steady::now();
    if (document.contains("bye")) hub_left = true;
    if (document.contains("quiet")) world_progressed = Steady::now() - std::chrono::milliseconds(document.value("quiet", 0));
    if (document.contains("table")) table = document.value("table", "");
    if (document.contains("lost")) {
      reported_loss = document.value("lost", "");
      about_input = document.value("input", false);
    }
    if (document.contains("leave") && !over) leave_now = true;
  }
  std::string loss;
  bool silent = false;
  {
    const std::lock_guard hold(lock);
    if (!over && !reported_loss.empty()) loss = reported_loss;
    silent = Steady::now() - self.received > loss_timeout();
    all_are_through |= leave_now;
    if (all_are_through && ended) hub_left = true;
  }
  if (leave_now) all_through();
  if (!loss.empty()) return declare(loss, about_input);
  if (hub_left) return;
  if (ended) declare("rank 0 is lost: its process ended");
  if (silent)
    declare(fmt::format("rank 0 is lost: nothing heard from it for {:.2g} s (stopped, or its host cannot be reached)",
                        in_seconds(loss_timeout())));
}

void Watch::State::send_report() {
  {
    const std::lock_guard hold(lock);
    if (all_are_through) return;
  }
  if (options.rank == 0) return check_ranks();
  if (!hub_left) send(0, report());
}

void Watch::State::loop() {
  auto next = Steady::now();
  while (!leaving) {
    std::vector<pollfd> sockets;
    for (auto& [rank, line] : lines)
      if (!(options.rank == 0 ? seen[rank].left : hub_left)) sockets.push_back({line.socket(), POLLIN, 0});
    const auto pause = std::clamp<std::int64_t>(milliseconds(next - Steady::now()), 1, 20);
    poll(sockets.data(), sockets.size(), static_cast<int>(pause));
    if (options.rank == 0) {
      receive_from_ranks();
      settle();
    } else {
      receive_from_hub();
    }
    bool ended = false;
    Steady::time_point since;
    {
      const std::lock_guard hold(lock);
      ended = over;
      since = over_since;
    }
    if (ended && options.kill_when_stuck && Steady::now() - since > options.deadline) {
      std::string message;
      {
        const std::lock_guard hold(lock);
        message = fmt::format("panpipe: rank {}: {}: {}\n", options.rank, self.at, reason);
      }
      std::fputs(message.c_str(), stderr);
      std::fputs("panpipe-exec: this rank did not end by itself after the loss: ended by its watch\n", stderr);
      _exit(1);
    }
    // A rank reports its action when it changes, so that the last report of one that dies is fresh.
    bool news = false;
    {
      const std::lock_guard hold(lock);
      news = self.at != reported;
      if (news) reported = self.at;
    }
    if (Steady::now() < next) {
      if (news && !ended && options.rank != 0) send_report();
      continue;
    }
    next = Steady::now() + interval;
    sample();
    if (!ended) send_report();
  }
}

// Rank 0, at the start: one line per rank, which names itself and the run.
void Watch::State::accept_all() {
  const auto end = Steady::now() + options.deadline;
  struct NewConnection {
    Line line;
    std::string challenge;
  };
  std::deque<NewConnection> new_connections;
  while (static_cast<int>(lines.size()) + 1 < options.size) {
    if (Steady::now() > end) {
      std::string missing;
      for (int rank = 1; rank < options.size; ++rank)
        if (!lines.count(rank)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
      throw MachineError(
          fmt::format("rank 0 waited {:.3g} s for the others' connections; missing: {} (a firewall between the hosts?)",
                      in_seconds(options.deadline), missing));
    }
    pollfd wait{listener, POLLIN, 0};
    if (poll(&wait, 1, 10) == 1) {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
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
      if (rank >= 1 && rank < options.size && !lines.count(static_cast<int>(rank)) &&
          equal_secrets(text_in(documents.front(), "proof"), proof(token, "rank", rank, connection.challenge, nonce))) {
        connection.line.send({{"welcome", proof(token, "welcome", rank, connection.challenge, nonce)}});
        lines[static_cast<int>(rank)] = std::move(connection.line);
        seen[static_cast<int>(rank)] = Seen{};
      }
      connection.line.close();
    }
    std::erase_if(new_connections, [](const NewConnection& connection) { return !connection.line.open(); });
  }
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

int Watch::listen_at(const std::string& host, int& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  int listener = -1;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  for (const addrinfo* address = found; address && listener < 0; address = address->ai_next) {
    listener = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int one = 1;  // connections of a run that has just ended do not hold the port
    if (port != 0) setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (listener < 0 || (bind(listener, address->ai_addr, address->ai_addrlen) == 0 && listen(listener, 128) == 0)) continue;
    close(listener);
    listener = -1;
  }
  if (found) freeaddrinfo(found);
  sockaddr_in6 own{};  // the longer of the two kinds
  socklen_t size = sizeof(own);
  if (listener < 0 || getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw MachineError(fmt::format("no TCP port can be opened at {} for the ranks", host));
  port = ntohs(own.sin6_family == AF_INET6 ? own.sin6_port : reinterpret_cast<const sockaddr_in&>(own).sin_port);
  return listener;
}

int Watch::listen_anywhere(int& port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  socklen_t size = sizeof(six);
  if (listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&six), size) == 0 && listen(listener, 128) == 0 &&
      getsockname(listener, reinterpret_cast<sockaddr*>(&six), &size) == 0) {
    port = ntohs(six.sin6_port);
    return listener;
  }
  if (listener >= 0) close(listener);
  const int four = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);  // a machine without IPv6
  sockaddr_in address{};
  address.sin_family = AF_INET;
  size = sizeof(address);
  if (four < 0 || bind(four, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(four, 128) != 0 ||
      getsockname(four, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw MachineError("no TCP port can be opened for the ranks to watch each other");
  port = ntohs(address.sin_port);
  return four;
}

Watch::Watch(WatchOptions options, int listener, const std::string& token) : state_(std::make_unique<State>(std::move(options))) {
  state_->listener = listener;
  state_->token = token;
  struct Closed {
    int socket;
    ~Closed() { close(socket); }
  } closed{listener};
  state_->accept_all();
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

Watch::Watch(WatchOptions options, const std::string& host, int port, const std::string& token)
    : state_(std::make_unique<State>(std::move(options))) {
  const auto deadline = state_->options.deadline;
  const auto end = Steady::now() + deadline;
  std::optional<Line> line;
  bool known = false;
  do {  // rank 0 may have dropped it among many foreign connections
    line = Line::connect(host, port, std::max<Steady::duration>(end - Steady::now(), 1ms));
    known = line && introduce(*line, state_->options.rank, token, end);
  } while (!known && Steady::now() < end && (std::this_thread::sleep_for(20ms), true));
  if (line && !known)
    throw MachineError(
        fmt::format("rank {} reached {} port {}, but what answers there did not show within {:.3g} s that it is rank 0 "
                    "of this run",
                    state_->options.rank, host, port, in_seconds(deadline)));
  if (!line)
    throw MachineError(fmt::format("rank {} cannot reach rank 0 at {} port {} within {:.3g} s (a firewall between the hosts?)",
                                   state_->options.rank, host, port, in_seconds(deadline)));
  state_->lines[0] = std::move(*line);
  state_->thread = std::thread([state = state_.get()] { state->loop(); });
}

Watch::~Watch() {
  state_->leaving = true;
  if (state_->thread.joinable()) state_->thread.join();
  for (auto& [rank, line] : state_->lines) line.send({{"bye", true}});
}

void Watch::set_action(const std::string& action) {
  const std::lock_guard hold(state_->lock);
  state_->self.at = action;
  state_->progressed = Steady::now();
}

void Watch::begin_wait(const std::string& what) {
  const std::lock_guard hold(state_->lock);
  state_->self.at = what;
  state_->self.waits = true;
  state_->progressed = Steady::now();
}

void Watch::end_wait() {
  const std::lock_guard hold(state_->lock);
  state_->self.waits = false;
  state_->progressed = Steady::now();
}

void Watch::progress() {
  const std::lock_guard hold(state_->lock);
  state_->progressed = Steady::now();
}

void Watch::device(const std::string& waits_for, std::vector<Standing> operations) {
  const std::lock_guard hold(state_->lock);
  state_->device_waits = waits_for;
  state_->self.operations = std::move(operations);
}

void Watch::abort(const std::string& why) noexcept {
  try {
    state_->end(why, false);
  } catch (...) {  // the others notice the closed connection
  }
}

void Watch::refuse(const std::string& text) noexcept {
  try {
    state_->end(text, true);
  } catch (...) {  // as above
  }
}

void Watch::leave(std::function<void()> all_through) {
  {
    const std::lock_guard hold(state_->lock);
    state_->all_through = std::move(all_through);
    state_->self.through = true;
  }
  if (state_->options.rank != 0) state_->send(0, {{"through", true}});
}

void Watch::farewell(Steady::duration timeout) {
  if (state_->options.rank != 0) return state_->send(0, {{"bye", true}});
  std::unique_lock hold(state_->lock);
  state_->changed.wait_for(hold, timeout, [this] { return state_->all_left; });
}

Steady::duration Watch::world_quiet() const {
  const std::lock_guard hold(state_->lock);
  return Steady::now() - std::max(state_->world_progressed, state_->progressed);
}

std::string Watch::others() const {
  const std::lock_guard hold(state_->lock);
  return state_->table;
}

}  // namespace panpipe::exec
