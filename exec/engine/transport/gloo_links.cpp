#include "exec/engine/transport/gloo_links.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.hpp"
#include "exec/engine/transport/message_header.hpp"

#ifndef PANPIPE_GLOO_NAMES
#error "Gloo's own headers were found before exec/engine/transport/gloo_names.hpp: they need not be of LibTorch's release"
#endif

namespace panpipe::exec {
namespace {

using namespace std::chrono_literals;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Larger tensors travel in pieces: each that arrives is progress, also over a slow network.
constexpr std::int64_t kPieceBytes = 16 * 1024 * 1024;
constexpr int kHeadersAhead = 4;
constexpr int kHeaderTag = 1, kPieceTag = 2;  // Gloo's tags

// c10d's messages go on with a trace of its calls.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

at::Tensor byte_tensor(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

}  // namespace

at::Tensor bytes_of(const at::Tensor& value, std::int64_t offset, std::int64_t count) {
  return at::from_blob(
      static_cast<char*>(value.data_ptr()) + offset, {count}, [value](void*) {}, at::kByte);
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                                           int rank, int size, const std::string& address,
                                                           Clock::duration deadline) {
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::duration_cast<std::chrono::milliseconds>(deadline));
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(address)};
    return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, store), rank, size, options);
  } catch (const std::exception& error) {
    throw MachineError(
        fmt::format("the ranks cannot connect to each other (group {}, this host is {}): {}", name, address, first_line(error)));
  }
}

struct GlooLinks::Link {
  int peer = 0;
  std::mutex posting;  // header and pieces of one message stay together
  std::mutex lock;
  std::condition_variable changed;
  struct Outgoing {
    WorkPtr work;
    at::Tensor kept;
    std::shared_ptr<Mailbox::Flag> done;  // set after this work, if any
  };
  std::deque<Outgoing> outgoing;
  bool closing = false;
  WorkPtr awaited;  // by the reader
  std::thread reader, releaser;
};

struct GlooLinks::State {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  Mailbox& mailbox;
  FailureDetector& detector;
  std::map<int, std::unique_ptr<Link>> links;

  struct Slot {
    at::Tensor buffer;
    WorkPtr work;
  };
  void post(Slot& slot, int peer) const {
    if (!slot.buffer.defined()) slot.buffer = byte_tensor(kHeaderBytes + kInlineBytes);
    std::vector<at::Tensor> tensors{slot.buffer};
    slot.work = group->recv(tensors, peer, kHeaderTag);
  }
  // False when the transport is being closed.
  bool wait(Link& link, const WorkPtr& work) {
    {
      const std::lock_guard hold(link.lock);
      if (link.closing) return false;
      link.awaited = work;
    }
    const bool arrived = work->wait(kNever);
    const std::lock_guard hold(link.lock);
    link.awaited.reset();
    return arrived && !link.closing;
  }
  bool take(Link& link, Slot& slot);
  void read(Link& link);
  void release(Link& link);
};

// One message out of a slot whose header has arrived; the slot is posted again.
bool GlooLinks::State::take(Link& link, Slot& slot) {
  MessageHeader header{};
  std::memcpy(&header, slot.buffer.data_ptr(), sizeof(header));
  at::Tensor value = room_for(header);
  if (header.inlined && header.bytes > 0)
    std::memcpy(value.data_ptr(), static_cast<char*>(slot.buffer.data_ptr()) + kHeaderBytes,
                static_cast<std::size_t>(header.bytes));
  post(slot, link.peer);
  if (!header.inlined) {
    std::vector<WorkPtr> pieces;
    for (std::int64_t offset = 0; offset < header.bytes; offset += kPieceBytes) {
      std::vector<at::Tensor> piece{bytes_of(value, offset, std::min(kPieceBytes, header.bytes - offset))};
      pieces.push_back(group->recv(piece, link.peer, kPieceTag));
    }
    for (const WorkPtr& piece : pieces) {
      if (!wait(link, piece)) return false;
      detector.progress();
    }
  }
  detector.progress();
  mailbox.put({link.peer, static_cast<Channel>(header.channel), header.tag}, {std::move(value)});
  return true;
}

void GlooLinks::State::read(Link& link) {
  try {
    std::vector<Slot> slots(kHeadersAhead);
    for (Slot& slot : slots) post(slot, link.peer);
    for (std::size_t next = 0;; next = (next + 1) % slots.size()) {
      if (!wait(link, slots[next].work)) return;
      if (!take(link, slots[next])) return;
    }
  } catch (const std::exception& error) {
    mailbox.broken(link.peer, first_line(error));
  }
}

void GlooLinks::State::release(Link& link) {
  while (true) {
    Link::Outgoing next;
    {
      std::unique_lock hold(link.lock);
      link.changed.wait(hold, [&] { return link.closing || !link.outgoing.empty(); });
      if (link.outgoing.empty()) return;
      next = link.outgoing.front();
    }
    bool sent = false;
    try {
      sent = next.work->wait(kNever);
    } catch (const std::exception& error) {
      mailbox.broken(link.peer, first_line(error));
      const std::lock_guard hold(link.lock);
      link.outgoing.clear();  // nobody takes them any more
      link.changed.notify_all();
      return;
    }
    if (sent && next.done) mailbox.set(*next.done);
    const std::lock_guard hold(link.lock);
    if (link.closing) return;  // what was on its way has been aborted and let go
    link.outgoing.pop_front();
    link.changed.notify_all();
  }
}

GlooLinks::GlooLinks(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, int rank, int size, Mailbox& mailbox,
                     FailureDetector& detector)
    : state_(std::shared_ptr<State>(new State{std::move(group), mailbox, detector, {}})) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    auto link = std::make_unique<Link>();
    link->peer = peer;
    Link* raw = link.get();
    link->reader = std::thread([state = state_.get(), raw] { state->read(*raw); });
    link->releaser = std::thread([state = state_.get(), raw] { state->release(*raw); });
    state_->links.emplace(peer, std::move(link));
  }
}

GlooLinks::~GlooLinks() {
  // A slow receiver may still have to take the last messages; after a run's premature end no rank does.
  const auto end = Clock::now() + (state_->mailbox.ended() ? 1s : 20s);
  for (auto& [peer, link] : state_->links) {
    std::unique_lock hold(link->lock);
    link->changed.wait_until(hold, end, [&l = *link] { return l.outgoing.empty(); });
    link->closing = true;
    if (link->awaited) link->awaited->abort();
    if (!link->outgoing.empty()) link->outgoing.front().work->abort();
    link->outgoing.clear();
    link->changed.notify_all();
  }
  for (auto& [peer, link] : state_->links) {
    link->reader.join();
    link->releaser.join();
  }
}

std::shared_ptr<Mailbox::Flag> GlooLinks::send(const at::Tensor& value, int to, Channel channel, std::uint32_t tag) {
  PANPIPE_CHECK(value.dim() <= kMostDimensions && value.is_contiguous() && value.device().is_cpu(),
                "a message is a contiguous tensor on the CPU");
  const std::int64_t bytes = static_cast<std::int64_t>(value.nbytes());
  MessageHeader header{static_cast<std::uint32_t>(channel),
                       tag,
                       static_cast<std::int32_t>(value.scalar_type()),
                       static_cast<std::int32_t>(value.dim()),
                       bytes,
                       bytes <= kInlineBytes,
                       {}};
  std::copy(value.sizes().begin(), value.sizes().end(), header.shape);
  const at::Tensor first = byte_tensor(kHeaderBytes + (header.inlined ? bytes : 0));
  std::memcpy(first.data_ptr(), &header, sizeof(header));
  if (header.inlined && bytes > 0)
    std::memcpy(static_cast<char*>(first.data_ptr()) + kHeaderBytes, value.data_ptr(), static_cast<std::size_t>(bytes));

  Link& link = *state_->links.at(to);
  auto done = std::make_shared<Mailbox::Flag>(Mailbox::Flag{header.inlined != 0, Clock::now()});
  const std::lock_guard together(link.posting);
  std::vector<Link::Outgoing> posted;
  try {
    std::vector<at::Tensor> tensors{first};
    posted.push_back({state_->group->send(tensors, to, kHeaderTag), first, nullptr});
    for (std::int64_t offset = 0; offset < bytes && !header.inlined; offset += kPieceBytes) {
      const std::int64_t count = std::min(kPieceBytes, bytes - offset);
      std::vector<at::Tensor> piece{bytes_of(value, offset, count)};
      posted.push_back({state_->group->send(piece, to, kPieceTag), piece[0], offset + count == bytes ? done : nullptr});
    }
  } catch (const std::exception& error) {
    // The receiver is gone. The watch reports who is lost and why, when this rank waits next, perhaps for this message.
    state_->mailbox.broken(to, first_line(error));
    done->set = false;
  }
  {
    const std::lock_guard hold(link.lock);
    for (auto& one : posted) link.outgoing.push_back(std::move(one));
  }
  link.changed.notify_all();
  return done;
}

}  // namespace panpipe::exec
