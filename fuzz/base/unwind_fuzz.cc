// Where a thread's calls go, by a file's .eh_frame and a stack of arbitrary bytes. The first byte
// says how many words the stack has. The calls are no more than there may be, all of them in code.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/profile/unwind/test_image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tfos;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t stack_bytes = bytes.empty() ? 0 : 8 * (data[0] % 64);
  const std::string_view rest = bytes.substr(bytes.empty() ? 0 : 1);
  const std::string_view stack = rest.substr(0, stack_bytes);
  const Calls calls = FollowInImage(std::string(rest.substr(stack.size())), stack);
  if (calls.addresses.empty() || calls.addresses.size() > Unwinder::kMostCalls) __builtin_trap();
  for (const std::uintptr_t address : calls.addresses) {
    // Before a function that seems to return to the file's first byte.
    if (address + 1 < kImageAddress || address >= kImageAddress + kImageBytes) __builtin_trap();
  }
  return 0;
}
