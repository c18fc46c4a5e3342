#include "exec/engine/fault.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

#include "base/error.hpp"

namespace panpipe::exec {
namespace {

std::string from_environment() {
  const char* text = std::getenv("PANPIPE_FAULT");
  return text ? text : "";
}

}  // namespace

Fault::Fault(int rank) : Fault(rank, from_environment()) {}

Fault::Fault(int rank, const std::string& text) {
  if (text.empty()) return;
  const auto wrong = [&] {
    return InputError(
        fmt::format("PANPIPE_FAULT is 'rank=1,action=0B2,kind=kill|stop|stuck|spin|fail|nan', with step=N where it is one step "
                    "only; not '{}'",
                    text));
  };
  std::map<std::string, std::string> fields;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) throw wrong();
    fields[part.substr(0, equals)] = part.substr(equals + 1);
  }
  const auto number = [&](const std::string& key) {
    const std::string& digits = fields[key];
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) throw wrong();
    return std::stol(digits);
  };
  active_ = number("rank") == rank;
  if (fields.count("step")) step_ = number("step");
  action_ = fields["action"];
  kind_ = fields["kind"];
  const bool known =
      kind_ == "kill" || kind_ == "stop" || kind_ == "stuck" || kind_ == "spin" || kind_ == "fail" || kind_ == "nan";
  if (!known || action_.empty()) throw wrong();
}

bool Fault::here(const std::string& action, std::int64_t step) const {
  return active_ && action == action_ && (!step_ || *step_ == step);
}

void Fault::before(const std::string& action, std::int64_t step) const {
  if (!here(action, step)) return;
  if (kind_ == "kill") raise(SIGKILL);
  if (kind_ == "stop") raise(SIGSTOP);
  while (kind_ == "stuck") sleep(1000);  // signals end a sleep
  for (volatile bool again = true; again && kind_ == "spin";) {
  }
  if (kind_ == "fail") throw std::runtime_error("a fault was asked for (PANPIPE_FAULT)");
}

double Fault::loss(const std::string& action, std::int64_t step, double value) const {
  return here(action, step) && kind_ == "nan" ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace panpipe::exec
