#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace nfsrdma::tool {

// A string of JSON with its quotes. Bytes that are no UTF-8 become the code points U+DC80 to
// U+DCFF, one each, as Python's `surrogateescape` reads them: names of files are any bytes.
std::string json_string(std::string_view text);

// One object, member by member, on one line.
class JsonObject {
  public:
    JsonObject& add(std::string_view name, std::string_view text) {
        return add_raw(name, json_string(text));
    }
    JsonObject& add(std::string_view name, const char* text) {
        return add(name, std::string_view(text));
    }
    template <std::integral T>
    JsonObject& add(std::string_view name, T number) {
        return add_raw(name, std::to_string(number));
    }
    JsonObject& add(std::string_view name, bool value) {
        return add_raw(name, value ? "true" : "false");
    }
    JsonObject& add(std::string_view name, double number);
    // `value` is JSON already.
    JsonObject& add_raw(std::string_view name, std::string_view value);
    std::string line() const { return "{" + members_ + "}\n"; }
    std::string text() const { return "{" + members_ + "}"; }

  private:
    std::string members_;
};

}  // namespace nfsrdma::tool
