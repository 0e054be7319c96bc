#include "hadoop/stream_thread.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tfos::hadoop {

Status Window::Fill(PositionedSource& source, std::uint64_t from) {
  start = from;
  bytes = 0;
  auto read = source.ReadStream(from, room);
  if (!read.ok()) return std::move(read).status();
  bytes = *read;
  return Status::Ok();
}

struct StreamThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  bool wanted = false;  ///< The window is to be filled; the thread's until it is false again.
  bool stop = false;
  std::uint64_t start = 0;
  Window window;
  Status status;
  std::thread thread;

  void Run(PositionedSource& source) {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return wanted || stop; });
      if (stop) return;
      lock.unlock();
      Status filled = window.Fill(source, start);
      lock.lock();
      status = std::move(filled);
      wanted = false;
      changed.notify_all();
    }
  }
};

StreamThread::StreamThread(PositionedSource& source) : source_(source) {}

StreamThread::~StreamThread() {
  if (shared_ == nullptr) return;
  if (process_ != ::getpid()) {
    // The thread that is to be waited for is not in this process.
    static_cast<void>(shared_.release());
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

bool StreamThread::pending() const { return pending_ && process_ == ::getpid(); }

void StreamThread::Start(std::uint64_t start, std::size_t bytes) {
  if (shared_ == nullptr) {
    auto shared = std::make_unique<Shared>();
    try {
      shared->thread =
          std::thread([shared = shared.get(), &source = source_] { shared->Run(source); });
    } catch (const std::system_error&) {
      return;  // The process has as many as it may; its caller reads without.
    }
    shared_ = std::move(shared);
    process_ = ::getpid();
  }
  if (process_ != ::getpid()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->window.room.resize(bytes);
    shared_->start = start;
    shared_->wanted = true;
  }
  shared_->changed.notify_all();
  pending_ = true;
}

Status StreamThread::Take(Window& window) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return !shared_->wanted; });
  pending_ = false;
  std::swap(shared_->window, window);
  return std::move(shared_->status);
}

}  // namespace tfos::hadoop
