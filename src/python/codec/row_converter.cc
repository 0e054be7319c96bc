#include "datasets/row_converter.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "base/format.h"
#include "python/codec/row_decoder.h"
#include "python/codec/row_encoder.h"

namespace tfos::python {
namespace {

// Of a row in an error message.
constexpr std::size_t kShownCharacters = 200;

std::string Show(const nb::list& rows) {
  std::string text = nb::cast<std::string>(nb::repr(rows[0]));
  if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + "...";
  return text;
}

Result<AlignedBuffer> Convert(std::span<const std::byte> chunk) {
  const nb::list rows = DecodeAll(chunk);
  RowEncoder encoder;
  encoder.Plan(rows, 0, nb::len(rows));
  AlignedBuffer columns;
  do {
    if (!encoder.columnar()) {
      return Status(
          ErrorKind::kBadInput,
          fmt::format("the rows have no common columns: each needs the same fields, and each field "
                      "one type (number, NumPy array, list of numbers of one type, str, bytes) in "
                      "all rows. One of them is {}. Make them alike before feeding them, or read "
                      "them with ctx.feed.next_batch",
                      Show(rows)));
    }
    columns = AlignedBuffer(encoder.bytes());
    if (columns.size() != encoder.bytes()) {
      return Status(ErrorKind::kRetryLater,
                    fmt::format("no memory for {} bytes of columns", encoder.bytes()));
    }
  } while (!encoder.Fill(columns.bytes()));
  return columns;
}

}  // namespace

Result<AlignedBuffer> datasets::ConvertToColumns(std::span<const std::byte> chunk) {
  const nb::gil_scoped_acquire acquire;
  try {
    return Convert(chunk);
  } catch (const std::exception& error) {  // nb::python_error too, whose text needs the GIL.
    return Status(ErrorKind::kBadInput,
                  fmt::format("reading pickled rows failed: {}", error.what()));
  }
}

}  // namespace tfos::python
