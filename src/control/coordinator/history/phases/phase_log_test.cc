#include "control/coordinator/history/phases/phase_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tfos::control {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

json Of(const PhaseLog& log, const std::vector<int>& nodes) { return json::parse(log.Json(nodes)); }

TEST(PhaseLogTest, TellsThePhasesOfTheDriverAndOfTheNodesThatAreAskedFor) {
  PhaseLog log;
  log.Note(milliseconds(1), PhaseLog::kDriver, "driver", "starting");
  log.Note(milliseconds(2), 0, "starting", "importing TensorFlow");
  log.Note(milliseconds(3), 1, "starting", "");
  log.Note(milliseconds(9), 1, "running", "evaluating");
  EXPECT_EQ(Of(log, {1, 7}), json::parse(R"({"-1":[[1,"driver","starting"]],
"1":[[3,"starting",""],[9,"running","evaluating"]]})"));
}

TEST(PhaseLogTest, APhaseThatLastsBeginsOnce) {
  PhaseLog log;
  for (int time = 1; time < 5; ++time) log.Note(milliseconds(time), 0, "running", "");
  log.Note(milliseconds(5), 0, "running", "evaluating");
  log.Note(milliseconds(6), 0, "running", "");
  EXPECT_EQ(Of(log, {0}),
            json::parse(R"({"0":[[1,"running",""],[5,"running","evaluating"],[6,"running",""]]})"));
}

TEST(PhaseLogTest, MemoryHasABound) {
  PhaseLog log;
  const std::string endless(100'000, 'x');
  for (std::size_t i = 0; i < 3 * PhaseLog::kMostPhases; ++i) {
    log.Note(milliseconds(i), 0, "running", std::to_string(i) + endless);
  }
  const json phases = Of(log, {0})["0"];
  ASSERT_EQ(phases.size(), PhaseLog::kMostPhases);
  EXPECT_EQ(phases.front()[2].get<std::string>().size(), PhaseLog::kMostTextBytes);
}

TEST(PhaseLogTest, TheFirstPhasesAndTheLastOnesStay) {
  PhaseLog log;
  constexpr std::size_t kMost = PhaseLog::kMostPhases;
  constexpr std::size_t kFirst = PhaseLog::kFirstPhases;
  for (std::size_t i = 0; i < 3 * kMost; ++i) {
    log.Note(milliseconds(i), 0, "running", std::to_string(i));
  }
  const json phases = Of(log, {0})["0"];
  ASSERT_EQ(phases.size(), kMost);
  EXPECT_EQ(phases[kFirst - 1], json::array({kFirst - 1, "running", std::to_string(kFirst - 1)}));
  EXPECT_EQ(phases[kFirst], json::array({kFirst, "forgotten", ""})) << "what lies between";
  EXPECT_EQ(phases[kFirst + 1][0], 2 * kMost + kFirst + 1);
  EXPECT_EQ(phases.back()[0], 3 * kMost - 1);
}

TEST(PhaseLogTest, ACharacterThatIsCutIsStillJson) {
  PhaseLog log;
  log.Note(milliseconds(1), 0, "running", std::string(PhaseLog::kMostTextBytes - 1, 'x') + "é");
  EXPECT_EQ(Of(log, {0})["0"].size(), 1U);
}

}  // namespace
}  // namespace tfos::control
