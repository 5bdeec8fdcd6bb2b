// What every function that XLA calls needs: shapes checked before memory is touched, large pages,
// threads.

#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "vectors.h"
#include "xla/ffi/api/ffi.h"

namespace persistor {
namespace {

namespace ffi = xla::ffi;

using Floats = ffi::Buffer<ffi::F32>;

template <class Buffer>
bool present(const Buffer& buffer) {
  return buffer.element_count() > 0;
}

template <class Buffer>
bool has_shape(const Buffer& buffer, std::initializer_list<int64_t> shape) {
  const auto dimensions = buffer.dimensions();
  return std::equal(dimensions.begin(), dimensions.end(), shape.begin(), shape.end());
}

// The first thing found wrong with a call, so that no memory is touched after it.
class Check {
 public:
  void operator()(bool right, const char* what) {
    if (!right && wrong_.empty()) wrong_ = what;
  }
  bool failed() const { return !wrong_.empty(); }
  ffi::Error error() const { return ffi::Error::InvalidArgument("persistor: " + wrong_); }

 private:
  std::string wrong_;
};

// Asks the system for large pages under a result that is about to be written. XLA hands out fresh
// memory, and touching it for the first time costs more than computing what goes there.
template <class Buffer>
void expect(const Buffer& buffer) {
#if defined(__linux__)
  constexpr uintptr_t page = 2 << 20;
  const auto begin = reinterpret_cast<uintptr_t>(buffer.untyped_data());
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t end = (begin + buffer.size_bytes()) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

// Tasks that several threads take by turns; who finds none left goes home.
class Tasks {
 public:
  Tasks(int64_t count, const std::function<void(int64_t)>& task) : count_(count), task_(task) {}

  void work() {
    for (int64_t i; (i = next_.fetch_add(1)) < count_;) {
      try {
        task_(i);
      } catch (const std::bad_alloc&) {
        failed_ = true;
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      if (++done_ == count_) all_done_.notify_all();
    }
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [&] { return done_ == count_; });
    if (failed_) throw std::bad_alloc();
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)>& task_;  // not touched once all tasks are taken
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
  int64_t done_ = 0;
  std::mutex mutex_;
  std::condition_variable all_done_;
};

std::atomic<int64_t> xla_threads{0};  // as the last call found them

// Runs tasks on XLA's threads and on the calling one; PERSISTOR_THREADS sets a limit.
Runner runner(ffi::ThreadPool& pool) {
  return [&pool](int64_t count, const std::function<void(int64_t)>& task) {
    int64_t threads = std::max<int64_t>(1, pool.num_threads());
    xla_threads = threads;
    if (const char* limit = std::getenv("PERSISTOR_THREADS")) {
      threads = std::min<int64_t>(threads, std::max(1, std::atoi(limit)));
    }
    auto tasks = std::make_shared<Tasks>(count, task);
    for (int64_t i = 1; i < std::min(threads, count); ++i) {
      pool.Schedule([tasks] { tasks->work(); });
    }
    tasks->work();
    tasks->wait();
  };
}

// Runs `f`, and says so where memory runs out.
template <class F>
ffi::Error attempt(F&& f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "persistor: out of memory");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace persistor
