#include "exec/engine/measure/memory_account.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

namespace panpipe::exec {

// Never freed: a tensor may outlive its rank's account. A few hundred bytes a rank.
struct MemoryAccount::Book {
  std::mutex lock;
  std::int64_t live = 0, before = 0, peak = 0;
  std::vector<Sample> samples;
  bool sampling = false;

  void change(std::int64_t bytes) {
    const std::lock_guard hold(lock);
    live += bytes;
    peak = std::max(peak, live);
    if (sampling && samples.size() < samples.capacity()) samples.push_back({Clock::now(), live});
  }
};

namespace {
thread_local void* current_book = nullptr;
}  // namespace

// In front of every block stands who pays for it. 64 bytes keep the alignment that kernels expect.
class CountingAllocator final : public c10::Allocator {
 public:
  struct alignas(c10::gAlignment) Header {
    MemoryAccount::Book* book = nullptr;
    std::int64_t bytes = 0;
  };
  static_assert(sizeof(Header) == c10::gAlignment);

  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, cpu};
    auto* header = new (c10::alloc_cpu(bytes + sizeof(Header))) Header;
    header->book = static_cast<MemoryAccount::Book*>(current_book);
    header->bytes = static_cast<std::int64_t>(bytes);
    if (header->book) header->book->change(header->bytes);
    return {header + 1, header + 1, &release, cpu};
  }
  // LibTorch's kernels for 2-byte types allocate raw memory: what is freed is then the data's own address.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  static void release(void* context) {
    if (context == nullptr) return;
    auto* header = static_cast<Header*>(context) - 1;
    if (header->book) header->book->change(-header->bytes);
    c10::free_cpu(header);
  }

  static void charge(const c10::DataPtr& pointer, MemoryAccount::Book* book) {
    if (pointer.get_deleter() != &release || pointer.get_context() == nullptr) return;
    auto* header = static_cast<Header*>(pointer.get_context()) - 1;
    if (header->book == book) return;
    if (header->book) header->book->change(-header->bytes);
    header->book = book;
    if (book) book->change(header->bytes);
  }
};

namespace {

void install() {
  static CountingAllocator allocator;
  static std::once_flag once;
  std::call_once(once, [] { c10::SetCPUAllocator(&allocator, /*priority=*/1); });
}

}  // namespace

MemoryAccount::MemoryAccount() : book_(new Book), outer_(static_cast<Book*>(current_book)) {
  install();
  current_book = book_;
}

MemoryAccount::~MemoryAccount() {
  current_book = outer_;
  const std::lock_guard hold(book_->lock);
  book_->sampling = false;
  std::vector<Sample>().swap(book_->samples);
}

UncountedMemory::UncountedMemory() : before_(std::exchange(current_book, nullptr)) {}
UncountedMemory::~UncountedMemory() { current_book = before_; }

std::int64_t MemoryAccount::live() const {
  const std::lock_guard hold(book_->lock);
  return book_->live;
}

void MemoryAccount::begin(std::size_t samples) {
  const std::lock_guard hold(book_->lock);
  book_->before = book_->peak = book_->live;
  book_->samples.clear();
  book_->samples.reserve(samples);
  book_->sampling = samples > 0;
}

MemoryAccount::Trace MemoryAccount::end() {
  const std::lock_guard hold(book_->lock);
  book_->sampling = false;
  return {book_->before, book_->peak, book_->peak, std::move(book_->samples)};
}

void charge_to_this_thread(const at::Tensor& tensor) {
  if (current_book == nullptr || !tensor.defined() || !tensor.has_storage()) return;
  CountingAllocator::charge(tensor.storage().data_ptr(), static_cast<MemoryAccount::Book*>(current_book));
}

}  // namespace panpipe::exec
