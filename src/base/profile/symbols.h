#ifndef TFOS_BASE_PROFILE_SYMBOLS_H_
#define TFOS_BASE_PROFILE_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/profile/unwind/memory_map.h"
#include "base/time/deadline.h"

namespace tfos {

/// What stands at addresses of a process's code, for people: "pause (libc.so.6)"; where a file
/// names no function, "libc.so.6+0x2d5f0". What can't be found out in time has no function. Code of
/// no file is "code that was made at run time".
///
/// `sorted`: the process's map. Reads the files' tables of symbols. It goes through each table once
/// for all addresses, as TensorFlow's have half a million entries.
/// Threads: any. Errors: an address where nothing is stands for itself.
std::map<std::uintptr_t, std::string> NamesOfCode(const std::set<std::uintptr_t>& addresses,
                                                  std::span<const Mapping> sorted,
                                                  const Deadline& deadline);

/// The name of a function as people want it: demangled, with `<...>` for the arguments of templates
/// where they make it longer than kLongestFunction, and cut to that at last.
std::string ReadableFunction(std::string_view symbol);
inline constexpr std::size_t kLongestFunction = 120;

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_SYMBOLS_H_
