# Writes a C++ source that defines tfos::control::EmbeddedFiles (src/control/page/page_files.h):
#   cmake -DOUTPUT=x.cc "-DFILES=a|b" -P EmbedFiles.cmake
string(REPLACE "|" ";" FILES "${FILES}")
set(contents "")
set(table "")
set(number 0)
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" bytes HEX)
  string(REPEAT "." 64 line)  # 32 bytes
  string(REGEX REPLACE "(${line})" "\\1\"\n\"" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  string(APPEND contents "constexpr char kFile${number}[] =\n\"${bytes}\";\n")
  string(APPEND table "    {\"${name}\", {kFile${number}, sizeof(kFile${number}) - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"control/page/page_files.h\"

namespace tfos::control {
namespace {

${contents}
constexpr EmbeddedFile kFiles[] = {
${table}};

}  // namespace

std::span<const EmbeddedFile> EmbeddedFiles() { return kFiles; }

}  // namespace tfos::control
")
