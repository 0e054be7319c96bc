#ifndef TFOS_ARROW_EXPORT_H_
#define TFOS_ARROW_EXPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrow/c_data.h"

namespace tfos::arrow {

/// One column, with what is in it, that is to be handed to another library through the Arrow C data
/// interface.
///
/// Owner and lifetime: shares the memory that its buffers point into. Threads: one at a time.
/// Units: `length` and `nulls` count values; a child's may differ from its parent's.
struct Field {
  std::string name;
  std::string format;  ///< Arrow's text for the type.
  bool nullable = true;
  std::uint64_t length = 0;
  std::uint64_t nulls = 0;
  std::vector<const void*> buffers;                 ///< As the type has them; null: no bitmap.
  std::vector<std::shared_ptr<const void>> memory;  ///< Of the buffers, in any order.
  std::vector<Field> children;
};

/// The type of `field` and of its children. The caller releases it.
ArrowSchema ExportSchema(const Field& field);

/// The values of `field`, which keep its memory until the caller releases them.
ArrowArray ExportArray(Field field);

}  // namespace tfos::arrow

#endif  // TFOS_ARROW_EXPORT_H_
