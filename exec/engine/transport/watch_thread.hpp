// The thread of a rank that reports it and hears the others: what both sides of the watch share.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/engine/transport/deadline_watch.hpp"
#include "exec/engine/transport/json_line.hpp"
#include "exec/engine/transport/own_report.hpp"
#include "exec/engine/transport/wait_limit.hpp"

namespace panpipe::exec {

// The reason of an end that a rank asked for; for wrong input it is the text for the user.
std::string ended_by(int rank, const std::string& why, bool input);

class WatchThread : public Watch {
 public:
  using Steady = std::chrono::steady_clock;

  explicit WatchThread(WatchOptions given);

  void set_action(const std::string& action) override { own_.note(action); }
  void begin_wait(const std::string& what, bool for_another) override { own_.note(what, for_another); }
  void end_wait(bool) override { own_.note(std::nullopt, false); }
  void progress() override { own_.note(std::nullopt); }
  void device(const std::string& waits_for, std::vector<Standing> operations) override {
    own_.device(waits_for, std::move(operations));
  }

  Steady::duration world_quiet() const override {
    const std::lock_guard hold(lock_);
    return std::min(own_.now().quiet, Steady::now() - world_progressed_);
  }
  std::string standstill(Steady::duration deadline) override;

  void abort(const std::string& reason) noexcept override { end(reason, false); }
  void refuse(const std::string& text) noexcept override { end(text, true); }
  void leave(std::function<void()> all_through) override {
    {
      const std::lock_guard hold(lock_);
      all_through_ = std::move(all_through);
    }
    send_to_first({{"through", true}});
  }

 protected:
  void start() {
    thread_ = std::thread([this] { loop(); });
  }
  // Before what the thread uses is gone.
  void stop() {
    leaving_ = true;
    if (thread_.joinable()) thread_.join();
    send_all({{"bye", true}});
  }

  virtual bool heard(int rank) const = 0;               // is its connection still of interest?
  virtual void hear() = 0;                              // what has come
  virtual void report() = 0;                            // at every interval
  virtual void send_to_first(const nlohmann::json&) {}  // on any thread
  virtual void spread(const nlohmann::json&) {}         // from rank 0 to the others

  void send(int rank, const nlohmann::json& document) {
    const std::lock_guard hold(sending_);
    lines_.at(rank).send(document);
  }
  void send_all(const nlohmann::json& document) {
    for (const auto& [rank, line] : lines_) send(rank, document);
  }
  Steady::duration loss_timeout() const;

  // The run is over. Told to everybody once.
  void declare(const std::string& why, bool input = false);

  const WatchOptions options_;
  std::map<int, Line> lines_;  // rank 0: by rank; others: to rank 0
  OwnReport own_;
  mutable std::mutex lock_;  // of what follows
  Steady::time_point world_progressed_ = Steady::now();
  std::string table_;                             // what the others do, sent by rank 0 when it is quiet
  std::optional<Steady::time_point> over_since_;  // with a loss
  std::string reason_;                            // of it
  std::function<void()> all_through_;             // this rank needs the others no more
  bool all_are_through_ = false;

 private:
  void end(const std::string& why, bool input) noexcept;  // on the thread of the caller that ends it
  void end_stuck_process(const std::string& reason) const;
  void loop();

  const Steady::duration interval_;
  std::mutex sending_;  // abort() speaks on the caller's thread
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

}  // namespace panpipe::exec
