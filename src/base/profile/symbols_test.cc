#include "base/profile/symbols.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace {
[[gnu::noinline]] int FunctionOfThisFileAlone(int number) {
  volatile int twice = 2 * number;
  return twice;
}
}  // namespace

namespace tfos {
namespace {

using ::testing::ContainsRegex;
using ::testing::StartsWith;

std::vector<Mapping> OwnMap() { return ReadMemoryMap(::getpid()); }

Deadline Soon() { return Deadline::After(std::chrono::seconds(20)); }

template <typename Function>
std::uintptr_t Inside(Function* function) {
  return reinterpret_cast<std::uintptr_t>(function) + 1;
}

TEST(SymbolsTest, FunctionsOfFilesAndOfTheCLibraryHaveNames) {
  const std::uintptr_t own = Inside(&FunctionOfThisFileAlone);
  auto* const write = reinterpret_cast<void*>(&::write);
  const std::uintptr_t library = Inside(static_cast<char*>(write));
  const auto names = NamesOfCode({own, library}, OwnMap(), Soon());
  EXPECT_EQ(names.at(own), "(anonymous namespace)::FunctionOfThisFileAlone(int) (symbols_test)");
  EXPECT_FALSE(names.at(library).empty());
  EXPECT_EQ(FunctionOfThisFileAlone(2), 4);
}

TEST(SymbolsTest, WhatIsNotFoundInTimeHasItsPlaceInTheFile) {
  const std::uintptr_t own = Inside(&FunctionOfThisFileAlone);
  const auto names = NamesOfCode({own}, OwnMap(), Deadline::After(std::chrono::seconds(0)));
  EXPECT_THAT(names.at(own), ContainsRegex("^symbols_test[+]0x[0-9a-f]+$"));
}

TEST(SymbolsTest, AnAddressOfNoFileStandsForItself) {
  EXPECT_EQ(NamesOfCode({0x10}, OwnMap(), Soon()).at(0x10), "0x10");
}

TEST(SymbolsTest, CodeOfNoFileWasMadeAtRunTime) {
  const std::vector<Mapping> map = {{.begin = 0x1000, .end = 0x2000, .is_code = true}};
  EXPECT_EQ(NamesOfCode({0x1800}, map, Soon()).at(0x1800), "code that was made at run time");
}

TEST(SymbolsTest, NamesOfCAreAsTheyAre) {
  EXPECT_EQ(ReadableFunction("PyObject_Call"), "PyObject_Call");
  EXPECT_EQ(ReadableFunction("_Znot mangled"), "_Znot mangled");
}

TEST(SymbolsTest, ShortNamesKeepTheArgumentsOfTemplates) {
  EXPECT_EQ(ReadableFunction("_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back(int&&)");
}

TEST(SymbolsTest, LongNamesLoseThemAndAreCut) {
  const std::string many(200, 'a');
  EXPECT_EQ(ReadableFunction("Run<" + many + "<int> >::operator<<(X)"), "Run<...>::operator<<(X)");
  EXPECT_EQ(ReadableFunction("Run<" + many + ">::operator->()"), "Run<...>::operator->()");
  const std::string cut = ReadableFunction(many);
  EXPECT_EQ(cut.size(), kLongestFunction);
  EXPECT_THAT(cut, StartsWith("aaa"));
  EXPECT_EQ(ReadableFunction("\xff\n"), "??");
}

}  // namespace
}  // namespace tfos
