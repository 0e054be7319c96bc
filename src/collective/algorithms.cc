#include "collective/algorithms.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

namespace tfos::collective {
namespace {

/// What goes down a tree at a time, so that all levels are busy.
constexpr std::size_t kPiece = std::size_t{1} << 20;

/// Runs around the ring: in step s this member passes on piece rank - s + `ahead` and receives the
/// one before. `begins` has the pieces' offsets in `data`, and its end.
Status GoAround(Team& team, const std::vector<std::size_t>& begins, std::uint32_t ahead,
                std::optional<DType> add, std::span<std::byte> data) {
  const std::uint32_t n = team.size();
  const auto piece = [&](std::uint32_t index) {
    return data.subspan(begins[index], begins[index + 1] - begins[index]);
  };
  for (std::uint32_t step = 0; step + 1 < n; ++step) {
    const std::uint32_t passed = (team.rank() + ahead + n - step) % n;
    TFOS_RETURN_IF_ERROR(team.Move({.to = (team.rank() + 1) % n,
                                    .data = piece(passed),
                                    .from = (team.rank() + n - 1) % n,
                                    .room = piece((passed + n - 1) % n),
                                    .add = add}));
  }
  return {};
}

/// Offsets of as many pieces as there are members, and the end, in so many bytes of elements.
std::vector<std::size_t> Pieces(const Team& team, std::size_t bytes, std::size_t element_bytes) {
  const std::size_t n = team.size();
  const std::size_t elements = bytes / element_bytes;
  std::vector<std::size_t> begins(n + 1);
  for (std::size_t i = 0; i <= n; ++i) {
    // Without a product that overflows.
    begins[i] = (elements / n * i + elements % n * i / n) * element_bytes;
  }
  return begins;
}

}  // namespace

Status AllReduceByDoubling(Team& team, DType dtype, std::span<std::byte> data,
                           std::span<std::byte> scratch) {
  const std::uint32_t n = team.size();
  const std::uint32_t rank = team.rank();
  const std::uint32_t core = std::bit_floor(n);
  // Those beyond the largest power of two have somebody else take part for them.
  if (rank >= core) {
    TFOS_RETURN_IF_ERROR(team.Move({.to = rank - core, .data = data}));
    return team.Move({.from = rank - core, .room = data});
  }
  const bool has_guest = rank + core < n;
  if (has_guest) {
    TFOS_RETURN_IF_ERROR(team.Move({.from = rank + core, .room = data, .add = dtype}));
  }
  for (std::uint32_t distance = 1; distance < core; distance *= 2) {
    const std::uint32_t partner = rank ^ distance;
    std::ranges::copy(data, scratch.begin());
    TFOS_RETURN_IF_ERROR(
        team.Move({.to = partner, .data = scratch, .from = partner, .room = data, .add = dtype}));
  }
  return has_guest ? team.Move({.to = rank + core, .data = data}) : Status();
}

Status AllReduceByRing(Team& team, DType dtype, std::span<std::byte> data) {
  const std::vector<std::size_t> begins = Pieces(team, data.size(), ElementBytes(dtype));
  TFOS_RETURN_IF_ERROR(GoAround(team, begins, 0, dtype, data));
  // Now this member has the whole sum of the piece after its own.
  return GoAround(team, begins, 1, std::nullopt, data);
}

Status AllReduceByHalving(Team& team, DType dtype, std::span<std::byte> data) {
  const std::vector<std::size_t> begins = Pieces(team, data.size(), ElementBytes(dtype));
  const auto pieces = [&](std::uint32_t first, std::uint32_t count) {
    return data.subspan(begins[first], begins[first + count] - begins[first]);
  };
  // Each round leaves half of the pieces that this member still sums up to a partner.
  for (std::uint32_t half = team.size() / 2; half > 0; half /= 2) {
    const std::uint32_t partner = team.rank() ^ half;
    TFOS_RETURN_IF_ERROR(team.Move({.to = partner,
                                    .data = pieces(partner / half * half, half),
                                    .from = partner,
                                    .room = pieces(team.rank() / half * half, half),
                                    .add = dtype}));
  }
  for (std::uint32_t have = 1; have < team.size(); have *= 2) {
    const std::uint32_t partner = team.rank() ^ have;
    TFOS_RETURN_IF_ERROR(team.Move({.to = partner,
                                    .data = pieces(team.rank() / have * have, have),
                                    .from = partner,
                                    .room = pieces(partner / have * have, have)}));
  }
  return {};
}

Status AllReduceByNarrowRing(Team& team, DType narrow, std::span<std::byte> data,
                             std::span<std::byte> scratch) {
  const std::uint32_t n = team.size();
  const std::size_t shrinks = sizeof(float) / ElementBytes(narrow);
  const std::vector<std::size_t> begins =
      Pieces(team, scratch.size(), ElementBytes(narrow));  // In `scratch`.
  const auto narrowed = [&](std::uint32_t index) {
    return scratch.subspan(begins[index], begins[index + 1] - begins[index]);
  };
  const auto wide = [&](std::uint32_t index) {
    return data.subspan(begins[index] * shrinks, (begins[index + 1] - begins[index]) * shrinks);
  };
  for (std::uint32_t step = 0; step + 1 < n; ++step) {
    const std::uint32_t passed = (team.rank() + n - step) % n;
    const std::uint32_t received = (passed + n - 1) % n;
    NarrowElements(narrow, wide(passed), narrowed(passed));
    TFOS_RETURN_IF_ERROR(team.Move({.to = (team.rank() + 1) % n,
                                    .data = narrowed(passed),
                                    .from = (team.rank() + n - 1) % n,
                                    .room = narrowed(received)}));
    AddNarrowElements(narrow, narrowed(received), wide(received));
  }
  // The member with the whole sum of a piece takes what all others get of it.
  const std::uint32_t whole = (team.rank() + 1) % n;
  NarrowElements(narrow, wide(whole), narrowed(whole));
  TFOS_RETURN_IF_ERROR(GoAround(team, begins, 1, std::nullopt, scratch));
  WidenElements(narrow, scratch, data);
  return {};
}

Status BroadcastByTree(Team& team, std::uint32_t root, std::span<std::byte> data) {
  const std::uint32_t n = team.size();
  const std::uint32_t place = (team.rank() + n - root) % n;  // In a tree whose root is 0.
  const auto member = [&](std::uint32_t at) { return (at + root) % n; };
  // The parent lacks the lowest bit; children add a bit below that.
  const std::uint32_t lowest = place == 0 ? std::bit_ceil(n) : place & (~place + 1);
  std::size_t done = 0;
  do {
    const std::span<std::byte> piece = data.subspan(done, std::min(kPiece, data.size() - done));
    if (place != 0) {
      TFOS_RETURN_IF_ERROR(team.Move({.from = member(place - lowest), .room = piece}));
    }
    for (std::uint32_t bit = lowest / 2; bit > 0; bit /= 2) {
      if (place + bit >= n) continue;
      TFOS_RETURN_IF_ERROR(team.Move({.to = member(place + bit), .data = piece}));
    }
    done += piece.size();
  } while (done < data.size());
  return {};
}

Status AllGatherByRing(Team& team, const std::vector<std::size_t>& bytes,
                       std::span<std::byte> data) {
  std::vector<std::size_t> begins(bytes.size() + 1);
  std::partial_sum(bytes.begin(), bytes.end(), begins.begin() + 1);
  return GoAround(team, begins, 0, std::nullopt, data);
}

}  // namespace tfos::collective
