#ifndef TFOS_BASE_FORMAT_H_
#define TFOS_BASE_FORMAT_H_

#include <fmt/format.h>

// fmt is used as headers alone, and every file that formats would compile all of it. This keeps its
// body, for the version that it is known for, in format.cc: three seconds less for each file. With
// another version it only takes longer.
#if FMT_VERSION / 10000 == 9
namespace fmt {
inline namespace v9 {
namespace detail {
extern template void vformat_to<char>(buffer<char>& to, string_view format,
                                      basic_format_args<FMT_BUFFER_CONTEXT(char)> arguments,
                                      locale_ref locale);
}  // namespace detail
}  // namespace v9
}  // namespace fmt
#endif

#endif  // TFOS_BASE_FORMAT_H_
