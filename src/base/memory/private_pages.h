#ifndef TFOS_BASE_MEMORY_PRIVATE_PAGES_H_
#define TFOS_BASE_MEMORY_PRIVATE_PAGES_H_

#include <cstddef>
#include <span>

#include "tfos/status.h"

namespace tfos {

/// Has the kernel copy pages of a private mapping (MAP_PRIVATE), in place: from then on they are
/// the process's own, whatever is written to the file. One system call since Linux 5.14; before
/// that a write to each page.
///
/// `pages`: whole ones, which are writable. Their bytes stay what they are, whoever reads or writes
/// some of them meanwhile. Threads: any. Errors: the system has no memory for the copies; without
/// the system call, it ends the process then.
Status CopyPrivatePages(std::span<std::byte> pages);

/// What CopyPrivatePages does on kernels without MADV_POPULATE_WRITE.
Status CopyPrivatePagesByWriting(std::span<std::byte> pages);

}  // namespace tfos

#endif  // TFOS_BASE_MEMORY_PRIVATE_PAGES_H_
