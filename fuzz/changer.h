#ifndef TFOS_FUZZ_CHANGER_H_
#define TFOS_FUZZ_CHANGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

namespace tfos {

/// Writes to memory that is read meanwhile, until it goes: to one byte after the other, from
/// `begin` on, and back what was there.
///
/// Owner and lifetime: borrows the memory. Threads: one of its own; it has begun when it is made.
class Changer {
 public:
  Changer(std::span<std::byte> memory, std::uint8_t begin)
      : thread_([this, memory, begin] { Change(memory, begin); }) {
    while (!begun_) std::this_thread::yield();
  }
  ~Changer() {
    stop_ = true;
    thread_.join();
  }
  Changer(const Changer&) = delete;
  Changer& operator=(const Changer&) = delete;

 private:
  // The race is what is tested; the reader takes the memory for a stranger's.
#if defined(__clang__)
  __attribute__((no_sanitize("thread")))
#endif
  void
  Change(std::span<std::byte> memory, std::uint8_t begin) {
    volatile std::byte* const bytes = memory.data();
    std::size_t at = begin % memory.size();
    std::uint32_t random = begin + 1U;
    while (!stop_) {
      random = random * 1664525U + 1013904223U;
      const std::byte before = bytes[at];
      bytes[at] = static_cast<std::byte>(random >> 24);
      begun_ = true;
      bytes[at] = before;
      at = (at + 1) % memory.size();
    }
  }

  std::atomic<bool> begun_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace tfos

#endif  // TFOS_FUZZ_CHANGER_H_
