#include "exec/engine/transport/gloo.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.hpp"
#include "exec/engine/device.hpp"

namespace panpipe::exec {
namespace {

struct Sent : Pending {
  std::shared_ptr<Mailbox> mailbox;
  std::shared_ptr<Mailbox::Flag> flag;
  at::Tensor kept;
  int to = 0;
  bool done() override { return mailbox->get(*flag); }
  void wait(Clock::duration deadline, const std::string& what) override { completed = mailbox->wait(*flag, deadline, what, to); }
};

// What the watch reports: wrong input as the whole text for the user.
void end(Mailbox& mailbox, const std::string& reason, bool input) {
  if (input)
    mailbox.end(InputError({Diagnostic{.message = reason, .rendered = true}}));
  else
    mailbox.end(reason);
}

}  // namespace

GlooTransport::GlooTransport(const ProcessOptions& options)
    : options_(options), rendezvous_(hold_rendezvous(options, [mailbox = mailbox_](const std::string& reason, bool input) {
        end(*mailbox, reason, input);
      })) {
  watch_with(watch());
  if (!options_.world.local_reported) {
    options_.world.local_rank = rendezvous_.local_rank;
    options_.world.local_size = rendezvous_.local_size;
  }
  auto group = make_gloo_group(rendezvous_.store, "world", rank(), size(), rendezvous_.address, options.deadline);
  links_ = std::make_unique<GlooLinks>(std::move(group), rank(), size(), *mailbox_, watch());
  // Gloo connects each with all: a rank that left as soon as it was connected itself would break the others' connecting, and
  // they would report that, not its reason.
  try {
    GlooTransport::barrier(options.deadline, "waiting until all ranks are connected");
  } catch (const InputError&) {
    // A rank that refuses has this behind it, so all are connected. This rank sees for itself, or hears it in its next wait.
  }
}

GlooTransport::~GlooTransport() {
  links_.reset();
  connected_.clear();
}

c10::intrusive_ptr<c10d::Store> GlooTransport::store() const {
  c10::intrusive_ptr<c10d::Store> own = rendezvous_.store->clone();
  own->setTimeout(rendezvous_.store->getTimeout());
  return own;
}

PendingPtr GlooTransport::post(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) {
  auto pending = std::make_shared<Sent>();
  pending->mailbox = mailbox_;
  pending->kept = on_host(value);
  pending->to = to;
  pending->flag = links_->send(pending->kept, to, channel, tag);
  return pending;
}

Group GlooTransport::make_group(const std::vector<int>& ranks) {
  const Group group = MailTransport::make_group(ranks);
  if (connected_.count(group.id) || std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return group;
  await_members(ranks);
  const std::string name = fmt::format("group-{}", fmt::join(ranks, "-"));
  const auto own = member_of(group, rank());
  auto connected = make_gloo_group(rendezvous_.store, name, static_cast<int>(own), static_cast<int>(ranks.size()),
                                   rendezvous_.address, options_.deadline);
  connected_.try_emplace(group.id, GlooGroup(std::move(connected), group, own, mailbox_));
  return group;
}

void GlooTransport::await_members(const std::vector<int>& ranks) {
  const std::string names = fmt::format("{}", fmt::join(ranks, ", "));
  const std::string what = fmt::format("waiting for the group of ranks {}", names);
  const auto tag = static_cast<std::uint32_t>(std::hash<std::string>()(names));
  const at::Tensor nothing = at::empty({0}, at::kByte);
  const int first = ranks.front();
  if (rank() != first) {
    post(nothing, first, Channel::Arrival, tag);
    mailbox_->take({first, Channel::Arrival, tag}, options_.deadline, what);
    return;
  }
  for (const int other : ranks)
    if (other != first) mailbox_->take({other, Channel::Arrival, tag}, options_.deadline, what);
  for (const int other : ranks)
    if (other != first) post(nothing, other, Channel::Arrival, tag);
}

void GlooTransport::abort(const std::string& reason) noexcept {
  mailbox_->end(fmt::format("rank {} ended the run: {}", rank(), reason));
  watch().abort(reason);
}

// The others' text names this rank where they may have been given other files; the ranks of panpipe run are of one host, and a
// message of all of them is printed once.
void GlooTransport::refuse(const InputError& error) noexcept {
  const std::string text = error.what();
  end(*mailbox_, text, true);
  watch().refuse(options_.world.launcher == "panpipe run" ? text : fmt::format("rank {}: {}", rank(), text));
}

void GlooTransport::leave(Clock::duration deadline, const std::string& what) {
  const auto through = std::make_shared<Mailbox::Flag>();
  watch().leave([mailbox = mailbox_, through] { mailbox->set(*through); });
  mailbox_->wait(*through, deadline, what);
  watch().farewell(deadline);
}

std::unique_ptr<Transport> make_gloo_transport(const ProcessOptions& options) { return std::make_unique<GlooTransport>(options); }

}  // namespace panpipe::exec
