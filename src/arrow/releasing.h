#ifndef TFOS_ARROW_RELEASING_H_
#define TFOS_ARROW_RELEASING_H_

#include "arrow/c_data.h"

namespace tfos::arrow {

/// Releases an ArrowSchema or an ArrowArray at the end of a scope, however that comes about. One
/// that has been moved from or released already is left alone.
///
/// Owner and lifetime: a local; borrows the struct. Threads: one at a time. Errors: none.
template <typename Exported>
class Releasing {
 public:
  explicit Releasing(Exported& exported) : exported_(exported) {}
  ~Releasing() {
    if (exported_.release != nullptr) exported_.release(&exported_);
  }
  Releasing(const Releasing&) = delete;
  Releasing& operator=(const Releasing&) = delete;

 private:
  Exported& exported_;
};

}  // namespace tfos::arrow

#endif  // TFOS_ARROW_RELEASING_H_
