#include "datasets/row_converter.h"

#include <exception>
#include <new>
#include <string>

#include "base/format.h"
#include "python/codec/row_decoder.h"
#include "python/codec/row_encoder.h"

namespace tfos::python {
namespace {

// How many characters of a row an error message shows.
constexpr Py_ssize_t kShownCharacters = 200;

std::string Show(const nb::list& rows) {
  const nb::str all = nb::repr(rows[0]);
  // Of the str: within its UTF-8, a cut could fall into a character.
  const std::string shown =
      MessageText(Checked(PyUnicode_Substring(all.ptr(), 0, kShownCharacters)));
  return PyUnicode_GetLength(all.ptr()) > kShownCharacters ? shown + "..." : shown;
}

Result<AlignedBuffer> Convert(std::span<const std::byte> chunk) {
  const nb::list rows = DecodeAll(chunk);
  RowEncoder encoder(/*pickles=*/true, RowEncoder::Arrays::kValues);
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
      return Status(ErrorKind::kNoResources,
                    fmt::format("no memory for {} bytes of columns", encoder.bytes()));
    }
  } while (!encoder.Fill(columns.bytes()));
  return columns;
}

}  // namespace
}  // namespace tfos::python

namespace tfos::datasets {

namespace nb = nanobind;

Result<AlignedBuffer> ConvertToColumns(std::span<const std::byte> chunk) {
  const nb::gil_scoped_acquire acquire;
  try {
    return python::Convert(chunk);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) {
      // A signal's, such as KeyboardInterrupt. It waits in Python's error indicator, where the
      // caller's ThrowStatus finds it.
      error.restore();
      return Status(ErrorKind::kInterrupted, "interrupted while it read pickled rows");
    }
    const bool no_memory = error.matches(PyExc_MemoryError);
    return Status(no_memory ? ErrorKind::kNoResources : ErrorKind::kBadInput,
                  fmt::format("reading pickled rows failed: {}", error.what()));
  } catch (const std::bad_alloc&) {
    return Status(ErrorKind::kNoResources, "no memory to read pickled rows");
  } catch (const std::exception& error) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("reading pickled rows failed: {}", error.what()));
  }
}

}  // namespace tfos::datasets
