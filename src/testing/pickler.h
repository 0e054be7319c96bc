#ifndef TFOS_TESTING_PICKLER_H_
#define TFOS_TESTING_PICKLER_H_

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tfos {

/// Puts pickles together opcode by opcode, named as in CPython's Lib/pickletools.py.
///
/// Owner and lifetime: a value. Threads: as any value. Errors: none; what it makes need not be
/// valid.
class Pickler {
 public:
  Pickler() { Op("\x80\x05"); }

  Pickler& Op(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Pickler& Memoize() { return Op("\x94"); }
  Pickler& Get(std::uint8_t index) { return Op("h").Number(index, 1); }

  /// In the shortest form, as CPython does it.
  Pickler& Int(std::int64_t value) {
    if (value >= 0 && value < 0x100) return Op("K").Number(value, 1);
    if (value >= 0 && value < 0x10000) return Op("M").Number(value, 2);
    if (value == static_cast<std::int32_t>(value)) return Op("J").Number(value, 4);
    return Op("\x8a\x08").Number(value, 8);
  }
  Pickler& Float(double value) {
    return Op("G").Number(
        static_cast<std::int64_t>(__builtin_bswap64(std::bit_cast<std::uint64_t>(value))), 8);
  }
  Pickler& Text(std::string_view text) { return Op("\x8c").Number(text.size(), 1).Op(text); }
  Pickler& Bytes(std::string_view bytes) { return Op("B").Number(bytes.size(), 4).Op(bytes); }
  Pickler& ByteArray(std::string_view bytes) {
    return Op("\x96").Number(bytes.size(), 8).Op(bytes);
  }
  Pickler& Global(std::string_view module, std::string_view name) {
    return Text(module).Text(name).Op("\x93");
  }

  Pickler& Floats(std::initializer_list<double> values) {
    Op("](");
    for (const double value : values) Float(value);
    return Op("e");
  }
  Pickler& Ints(std::initializer_list<std::int64_t> values) {
    Op("](");
    for (const std::int64_t value : values) Int(value);
    return Op("e");
  }

  Pickler& DType(std::string_view text) {
    Global("numpy", "dtype").Text(text).Op("\x89\x88\x87R");
    Op("(K\x03").Text(text.ends_with("1") ? "|" : "<").Op("NNN").Int(-1).Int(-1);
    return Int(0).Op("tb");
  }
  /// As protocol 5 has an array in C order that may be written to.
  Pickler& Array(std::string_view dtype, std::initializer_list<std::int64_t> shape,
                 std::string_view data) {
    Global("numpy._core.numeric", "_frombuffer").Op("(").ByteArray(data).DType(dtype).Op("(");
    for (const std::int64_t dimension : shape) Int(dimension);
    return Op("t").Text("C").Op("tR");
  }
  Pickler& Scalar(std::string_view dtype, std::string_view data) {
    return Global("numpy._core.multiarray", "scalar").DType(dtype).Bytes(data).Op("\x86R");
  }

  /// The whole pickle.
  std::string Stop() const { return bytes_ + "."; }

 private:
  template <typename T>
  Pickler& Number(T value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }

  std::string bytes_;
};

}  // namespace tfos

#endif  // TFOS_TESTING_PICKLER_H_
