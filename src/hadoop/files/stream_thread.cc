#include "hadoop/files/stream_thread.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "base/thread/guarded.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"

namespace tfos::hadoop {

Status Window::Fill(PositionedSource& source, std::uint64_t from) {
  start = from;
  bytes = 0;
  ended = false;
  auto read = source.ReadStream(from, room);
  if (read.ok()) {
    bytes = *read;
    ended = bytes < room.size();
  }
  if (bytes == 0) room = {};
  return std::move(read).status();
}

struct StreamThread::Shared {
  Mutex mutex;
  CondVar changed;
  bool wanted TFOS_GUARDED_BY(mutex) = false;
  bool stop TFOS_GUARDED_BY(mutex) = false;
  bool ended TFOS_GUARDED_BY(mutex) = false;  ///< The thread, of itself.
  std::uint64_t start TFOS_GUARDED_BY(mutex) = 0;
  /// To be filled while `wanted`, and the thread's until that is false again. Else the mutex's.
  Window window;
  Status status TFOS_GUARDED_BY(mutex);
  /// Made before it is wanted, as it takes memory itself.
  const Status no_memory{ErrorKind::kNoResources, "no memory to read a file ahead"};
  std::thread thread;

  void Run(PositionedSource& source) {
    MutexLock lock(mutex);
    while (true) {
      while (!wanted && !stop) changed.Wait(mutex);
      if (stop) break;
      const std::uint64_t from = start;
      lock.Unlock();
      Status filled;
      Guarded([&] { filled = window.Fill(source, from); },
              [&](ErrorKind kind, const char* what) {
                window.room = {};  // Gives the memory back.
                filled = kind == ErrorKind::kNoResources ? no_memory : Status(kind, what);
              });
      lock.Lock();
      status = std::move(filled);
      wanted = false;
      ended = !status.ok() || window.ended;
      changed.NotifyAll();
      if (ended && !stop) return;
    }
    window = {};
  }
};

StreamThread::StreamThread(PositionedSource& source) : source_(source) {}

StreamThread::~StreamThread() {
  if (shared_ != nullptr && process_ != ::getpid()) {
    // The thread that is to be waited for is not in this process.
    static_cast<void>(shared_.release());
    return;
  }
  Stop();
  Join();
}

bool StreamThread::pending() const { return pending_ && process_ == ::getpid(); }

void StreamThread::Start(std::uint64_t start, std::size_t bytes) {
  if (shared_ == nullptr) {
    auto shared = std::make_unique<Shared>();
    Result<std::thread> thread = StartThread(
        "tfos-read-ahead", [shared = shared.get(), &source = source_] { shared->Run(source); });
    if (!thread.ok()) return;  // The process has as many as it may; its caller reads without.
    shared->thread = std::move(*thread);
    shared_ = std::move(shared);
    process_ = ::getpid();
  }
  if (process_ != ::getpid()) return;
  {
    const MutexLock lock(shared_->mutex);
    shared_->window.room.resize(bytes);
    shared_->start = start;
    shared_->wanted = true;
  }
  shared_->changed.NotifyAll();
  pending_ = true;
}

Status StreamThread::Take(Window& window) {
  MutexLock lock(shared_->mutex);
  while (shared_->wanted) shared_->changed.Wait(shared_->mutex);
  pending_ = false;
  std::swap(shared_->window, window);
  Status status = std::move(shared_->status);
  const bool ended = shared_->ended;
  lock.Unlock();
  if (ended) {
    Stop();
    Join();
  }
  return status;
}

void StreamThread::Stop() {
  if (shared_ == nullptr || process_ != ::getpid()) return;
  pending_ = false;
  stopping_ = true;
  {
    const MutexLock lock(shared_->mutex);
    shared_->stop = true;
    if (!shared_->wanted) shared_->window = {};
  }
  shared_->changed.NotifyAll();
}

void StreamThread::Join() {
  if (!stopping_ || process_ != ::getpid()) return;
  shared_->thread.join();
  shared_.reset();
  stopping_ = false;
}

}  // namespace tfos::hadoop
