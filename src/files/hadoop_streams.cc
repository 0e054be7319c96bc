#include "files/hadoop_streams.h"

namespace tfos::files {

Result<std::size_t> HadoopSource::Read(std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(const std::size_t read, file_->Read(offset_, room));
  offset_ += read;
  return read;
}

}  // namespace tfos::files
