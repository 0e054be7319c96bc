#ifndef TFOS_BASE_PROFILE_SYMBOLS_H_
#define TFOS_BASE_PROFILE_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/time/deadline.h"

namespace tfos {

/// What stands at addresses of this process's code, for people: "pause (libc.so.6)"; where a file
/// names no function, "libc.so.6+0x2d5f0". What can't be found out in time has no function.
///
/// Reads /proc/self/maps and the files' tables of symbols. It asks the dynamic loader for nothing,
/// as a thread that hangs may hold the loader's lock. It goes through each table once for all
/// addresses, as TensorFlow's have half a million entries.
/// Threads: any. Errors: an address that belongs to no file stands for itself.
std::map<std::uintptr_t, std::string> NamesOfCode(const std::set<std::uintptr_t>& addresses,
                                                  const Deadline& deadline);

/// The name of a function as people want it: demangled, with `<...>` for the arguments of templates
/// where they make it longer than kLongestFunction, and cut to that at last.
std::string ReadableFunction(std::string_view symbol);
inline constexpr std::size_t kLongestFunction = 120;

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_SYMBOLS_H_
