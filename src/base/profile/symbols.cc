#include "base/profile/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/process/unique_fd.h"

namespace tfos {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

/// Far more than any file has; one that says more is broken.
constexpr std::size_t kMostHeaders = 4096;
constexpr std::size_t kMostNameBytes = 4096;
constexpr std::size_t kSymbolsAtOnce = 8192;

/// Files are read and not mapped, so that one that somebody cuts off can't crash the process.
bool ReadAt(int file, void* into, std::size_t bytes, std::uint64_t at) {
  return ::pread(file, into, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

template <typename Entry>
std::vector<Entry> ReadTable(int file, std::uint64_t at, std::size_t count) {
  std::vector<Entry> entries(std::min(count, kMostHeaders));
  if (!ReadAt(file, entries.data(), entries.size() * sizeof(Entry), at)) entries.clear();
  return entries;
}

/// An address whose function is looked for.
struct Wanted {
  std::uint64_t at = 0;  ///< As the file's symbols count.
  std::uintptr_t address = 0;
  std::string name;
};

std::size_t LeadingUnderscores(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

std::string ReadName(int file, const Section& names, std::uint64_t at) {
  if (at >= names.sh_size) return {};
  std::string name(std::min<std::uint64_t>(names.sh_size - at, kMostNameBytes), '\0');
  const ssize_t got =
      ::pread(file, name.data(), name.size(), static_cast<off_t>(names.sh_offset + at));
  name.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return name.substr(0, name.find('\0'));
}

/// Gives the function's name to those of `wanted` in it. Of several names, the plainest.
void Give(int file, const Symbol& symbol, const Section& names, std::span<Wanted> wanted) {
  auto first = std::ranges::lower_bound(wanted, symbol.st_value, {}, &Wanted::at);
  if (first == wanted.end() || first->at - symbol.st_value >= symbol.st_size) return;
  const std::string name = ReadName(file, names, symbol.st_name);
  if (name.empty()) return;
  for (; first != wanted.end() && first->at - symbol.st_value < symbol.st_size; ++first) {
    if (first->name.empty() || LeadingUnderscores(name) < LeadingUnderscores(first->name)) {
      first->name = name;
    }
  }
}

/// The names of `wanted`, which are sorted.
void LookUp(int file, const std::vector<Section>& sections, std::span<Wanted> wanted,
            const Deadline& deadline) {
  auto table = std::ranges::find(sections, Elf64_Word{SHT_SYMTAB}, &Section::sh_type);
  if (table == sections.end()) {
    table = std::ranges::find(sections, Elf64_Word{SHT_DYNSYM}, &Section::sh_type);
  }
  if (table == sections.end() || table->sh_link >= sections.size()) return;
  std::vector<Symbol> symbols(kSymbolsAtOnce);
  for (std::uint64_t at = 0; at + sizeof(Symbol) <= table->sh_size && !deadline.passed();
       at += symbols.size() * sizeof(Symbol)) {
    symbols.resize(std::min<std::uint64_t>(kSymbolsAtOnce, (table->sh_size - at) / sizeof(Symbol)));
    if (!ReadAt(file, symbols.data(), symbols.size() * sizeof(Symbol), table->sh_offset + at)) {
      return;
    }
    for (const Symbol& symbol : symbols) {
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
      Give(file, symbol, sections[table->sh_link], wanted);
    }
  }
}

/// `offsets`: in the file, with the addresses in memory.
void NameInFile(const std::string& path,
                const std::vector<std::pair<std::uint64_t, std::uintptr_t>>& offsets,
                const Deadline& deadline, std::map<std::uintptr_t, std::string>& names) {
  const std::string file_name = path.substr(path.rfind('/') + 1);
  for (const auto& [offset, address] : offsets) {
    names[address] = fmt::format("{}+{:#x}", file_name, offset);
  }
  // Not what waits for somebody, such as a pipe of that name.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Header header{};
  if (!file.valid() || !ReadAt(file.get(), &header, sizeof(header), 0) ||
      std::string_view(reinterpret_cast<const char*>(header.e_ident), SELFMAG) != ELFMAG) {
    return;
  }
  const auto segments = ReadTable<Segment>(file.get(), header.e_phoff, header.e_phnum);
  const auto sections = ReadTable<Section>(file.get(), header.e_shoff, header.e_shnum);
  std::vector<Wanted> wanted;
  for (const auto& [offset, address] : offsets) {
    for (const Segment& segment : segments) {
      if (segment.p_type != PT_LOAD || offset - segment.p_offset >= segment.p_filesz) continue;
      wanted.push_back({offset - segment.p_offset + segment.p_vaddr, address, {}});
      names[address] = fmt::format("{}+{:#x}", file_name, wanted.back().at);
      break;
    }
  }
  std::ranges::sort(wanted, {}, &Wanted::at);
  LookUp(file.get(), sections, wanted, deadline);
  for (const Wanted& found : wanted) {
    if (found.name.empty()) continue;
    names[found.address] = fmt::format("{} ({})", ReadableFunction(found.name), file_name);
  }
}

/// `<...>` for the arguments of templates.
std::string WithoutArguments(std::string_view name) {
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    // Of `operator<` and its like no arguments follow.
    if (constexpr std::string_view kOperator = "operator"; name.substr(i).starts_with(kOperator)) {
      std::size_t end = i + kOperator.size();
      while (end < name.size() && std::string_view("<>=-!").find(name[end]) != std::string::npos) {
        ++end;
      }
      if (depth == 0) text += name.substr(i, end - i);
      i = end - 1;
      continue;
    }
    // "->" says what a function returns.
    const bool closes = name[i] == '>' && depth > 0 && (i == 0 || name[i - 1] != '-');
    if (closes) --depth;
    if (depth == 0) text += name[i] == '<' ? std::string("<...") : std::string(1, name[i]);
    if (name[i] == '<') ++depth;
  }
  return text;
}

}  // namespace

std::string ReadableFunction(std::string_view symbol) {
  std::string name(symbol);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      symbol.starts_with("_Z") ? abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status)
                               : nullptr,
      &std::free);
  if (demangled) name = demangled.get();
  if (name.size() > kLongestFunction) name = WithoutArguments(name);
  if (name.size() > kLongestFunction) name = name.substr(0, kLongestFunction - 3) + "...";
  // A broken file may say anything.
  for (char& letter : name) {
    if (static_cast<unsigned char>(letter) >= 0x80 || std::iscntrl(letter) != 0) letter = '?';
  }
  return name;
}

std::map<std::uintptr_t, std::string> NamesOfCode(const std::set<std::uintptr_t>& addresses,
                                                  std::span<const Mapping> sorted,
                                                  const Deadline& deadline) {
  std::map<std::uintptr_t, std::string> names;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uintptr_t>>> by_file;
  for (const std::uintptr_t address : addresses) {
    const Mapping* const mapping = FindMapping(sorted, address);
    if (mapping == nullptr || !mapping->is_code) {
      names[address] = fmt::format("{:#x}", address);
    } else if (mapping->path.empty()) {
      names[address] = "code that was made at run time";
    } else {
      by_file[mapping->path].emplace_back(address - mapping->begin + mapping->offset, address);
    }
  }
  for (const auto& [path, offsets] : by_file) NameInFile(path, offsets, deadline, names);
  return names;
}

}  // namespace tfos
