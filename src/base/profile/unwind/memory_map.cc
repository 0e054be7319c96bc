#include "base/profile/unwind/memory_map.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/format.h"

namespace tfos {

std::vector<Mapping> ParseMemoryMap(std::string_view text) {
  std::vector<Mapping> mappings;
  while (!text.empty()) {
    const std::size_t end_of_line = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end_of_line));
    text.remove_prefix(std::min(end_of_line + 1, text.size()));
    unsigned long long begin = 0, end = 0, offset = 0;
    std::array<char, 8> rights{};
    int path = 0;
    // begin-end rights offset device inode path
    if (std::sscanf(line.c_str(), "%llx-%llx %7s %llx %*s %*s %n", &begin, &end, rights.data(),
                    &offset, &path) < 4) {
      continue;
    }
    mappings.push_back({.begin = begin,
                        .end = end,
                        .is_code = rights[2] == 'x',
                        .offset = offset,
                        .path = line.substr(std::min<std::size_t>(path, line.size()))});
  }
  return mappings;
}

std::vector<Mapping> ReadMemoryMap(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/maps", pid));
  return ParseMemoryMap(std::string(std::istreambuf_iterator<char>(file), {}));
}

const Mapping* FindMapping(std::span<const Mapping> sorted, std::uint64_t address) {
  const auto above = std::ranges::upper_bound(sorted, address, {}, &Mapping::begin);
  if (above == sorted.begin() || address >= std::prev(above)->end) return nullptr;
  return &*std::prev(above);
}

bool MemoryOfProcess::Read(std::uint64_t address, std::span<std::byte> into) const {
  return ReadSome(address, into) == into.size();
}

std::size_t MemoryOfProcess::ReadSome(std::uint64_t address, std::span<std::byte> into) const {
  const iovec here{.iov_base = into.data(), .iov_len = into.size()};
  const iovec there{.iov_base = reinterpret_cast<void*>(address), .iov_len = into.size()};
  const ssize_t got = ::process_vm_readv(pid_, &here, 1, &there, 1, 0);
  return static_cast<std::size_t>(std::max<ssize_t>(got, 0));
}

}  // namespace tfos
