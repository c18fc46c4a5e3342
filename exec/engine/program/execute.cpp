#include "exec/engine/program/execute.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "costmodel/degrees/axes.hpp"
#include "exec/engine/device.hpp"
#include "exec/engine/program/failure.hpp"
#include "exec/engine/program/fingerprint.hpp"
#include "exec/engine/program/hand_out_result.hpp"
#include "exec/engine/ranks_here.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/run/run.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/launch/launch.hpp"

namespace panpipe::exec {
namespace {

void check_world(const PreparedRun& run, const World& world) {
  if (run.world_size() == world.size) return;
  throw InputError(fmt::format("the plan needs {} rank{} ({}), but {} started {}", run.world_size(),
                               run.world_size() == 1 ? "" : "s", product_text(run.plan),
                               world.launcher.empty() ? "one process was" : world.launcher, world.size));
}

// The other ranks get a report before this process ends; its own threads may wait for a message that can no longer arrive.
[[noreturn]] void end_rank(const std::exception_ptr& error, int rank, Transport* transport) {
  const Failure failure = describe_failure(error, rank, transport ? transport->action() : "");
  report(failure.text, static_cast<int>(failure.code));
  if (transport) report_others(error, failure, *transport);
  std::fflush(nullptr);
  _exit(static_cast<int>(failure.code));
}

// One process, one rank.
int run_process(const RunRequest& request, const World& world) {
  std::unique_ptr<Transport> transport;
  try {
    const auto begin = Clock::now();
    transport = make_process_transport(request.transport, world, deadline_of(request));
    set_threads(threads_of_rank(request.threads, transport->local_size()));
    transport->set_action("reading the scenario");
    const FilesRead files;
    const PreparedRun run(request);
    check_world(run, world);
    agree(*transport, fingerprints(run), deadline_of(request));
    transport->set_action("making the weights");
    try {
      const Timeline timeline = run_rank(run, *transport);
      transport->set_action("writing the result");
      if (world.rank == 0) present(run, timeline, files, Clock::now() - begin);
    } catch (const Stopped& stop) {
      if (world.rank == 0) std::fputs(fmt::format("panpipe: {}\n", stop.what()).c_str(), stderr);
    }
    transport->leave(deadline_of(request), "the end of the run");
    return 0;
  } catch (...) {
    end_rank(std::current_exception(), world.rank, transport.get());
  }
}

// The failures of ranks that are threads.
struct Outcomes {
  std::mutex lock;
  std::condition_variable changed;
  int running = 0;
  std::vector<Failure> failures;  // in the order of time
  std::string stopped;
  Timeline timeline;
};

void run_thread(const PreparedRun& run, Transport& transport, Outcomes& outcomes) {
  std::optional<Failure> failure;
  Timeline timeline;
  try {
    set_threads(threads_of_rank(run.request.threads, transport.size()));
    timeline = run_rank(run, transport);
  } catch (...) {
    const auto error = std::current_exception();
    failure = describe_failure(error, transport.rank(), transport.action());
    if (!failure->peer && !failure->stop) report_others(error, *failure, transport);
  }
  const std::lock_guard hold(outcomes.lock);
  if (transport.rank() == 0) outcomes.timeline = std::move(timeline);
  if (failure && failure->stop) outcomes.stopped = failure->text;
  if (failure && !failure->stop) outcomes.failures.push_back(*failure);
  --outcomes.running;
  outcomes.changed.notify_all();
}

// The cause first, then what each of the others waited for.
[[noreturn]] void end_failed(std::vector<Failure> failures, int stuck, double deadline_s) {
  std::stable_sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) { return a.peer < b.peer; });
  std::vector<std::string> reported;
  for (const Failure& failure : failures) {
    if (std::find(reported.begin(), reported.end(), failure.text) != reported.end()) continue;
    reported.push_back(failure.text);
    report(failure.text, 0);
  }
  if (stuck > 0)
    report(
        fmt::format("panpipe: {} rank{} did not end within {:.3g} s after the failure", stuck, stuck == 1 ? "" : "s", deadline_s),
        0);
  std::fflush(nullptr);
  _exit(static_cast<int>(failures.front().code));
}

// One process, all ranks.
int run_threads(const RunRequest& request) {
  const auto begin = Clock::now();
  Outcomes outcomes;
  try {
    const FilesRead files;
    const PreparedRun run(request);
    const auto transports = make_local_transports(run.world_size());
    outcomes.running = run.world_size();
    std::vector<std::thread> ranks;
    for (const auto& transport : transports)
      ranks.emplace_back([&, rank = transport.get()] { run_thread(run, *rank, outcomes); });
    {
      std::unique_lock hold(outcomes.lock);
      outcomes.changed.wait(hold, [&] { return outcomes.running == 0 || !outcomes.failures.empty(); });
      // A rank that hangs where no abort reaches it is left behind.
      outcomes.changed.wait_for(hold, deadline_of(request), [&] { return outcomes.running == 0; });
      if (!outcomes.failures.empty()) end_failed(outcomes.failures, outcomes.running, request.deadline_s);
    }
    for (std::thread& rank : ranks) rank.join();
    if (!outcomes.stopped.empty()) {
      std::fputs((outcomes.stopped + "\n").c_str(), stderr);
      return 0;
    }
    present(run, outcomes.timeline, files, Clock::now() - begin);
    return 0;
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception(), -1, "");
    return report(failure.text, static_cast<int>(failure.code));
  }
}

}  // namespace

int report(const std::string& text, int exit_code) {
  const bool marked = std::getenv(kLaunchedVariable) != nullptr;
  std::string lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (marked) lines += kErrorMark;
    lines.append(text, begin, end - begin).append("\n");
    begin = end + 1;
  }
  std::fputs(lines.c_str(), stderr);
  return exit_code;
}

int execute(const RunRequest& request, const std::optional<World>& world) {
  if (request.transport == "local") return run_threads(request);
  // Called by hand, without a launcher: a world of one.
  World alone;
  alone.master_port = 29500;
  return run_process(request, world.value_or(alone));
}

}  // namespace panpipe::exec
