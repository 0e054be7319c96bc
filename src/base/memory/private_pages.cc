#include "base/memory/private_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace tfos {
namespace {

/// MADV_POPULATE_WRITE, which older C libraries do not name.
constexpr int kPopulateWrite = 23;

}  // namespace

Status CopyPrivatePages(std::span<std::byte> pages) {
  if (::madvise(pages.data(), pages.size(), kPopulateWrite) == 0) return {};
  // EINVAL: a kernel before 5.14 does not know it.
  if (errno != EINVAL) return Status::FromErrno(errno, "copy pages of a private mapping");
  return CopyPrivatePagesByWriting(pages);
}

Status CopyPrivatePagesByWriting(std::span<std::byte> pages) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < pages.size(); at += page_bytes) {
    // An exchange, as a compiler may drop an operation that changes nothing by its own account.
    const std::atomic_ref byte(reinterpret_cast<unsigned char&>(pages[at]));
    unsigned char value = byte.load(std::memory_order_relaxed);
    while (!byte.compare_exchange_weak(value, value)) {
    }
  }
  return {};
}

}  // namespace tfos
