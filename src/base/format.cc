#include "base/format.h"

#if FMT_VERSION / 10000 == 9
template void fmt::detail::vformat_to<char>(buffer<char>& to, string_view format,
                                            basic_format_args<FMT_BUFFER_CONTEXT(char)> arguments,
                                            locale_ref locale);
#endif
