#include <system_error>

#include "base/result.hpp"

namespace nfsrdma {

const char* to_string(Errc code) noexcept {
    switch (code) {
        case Errc::again:
            return "again";
        case Errc::reconnect:
            return "reconnect";
        case Errc::too_big:
            return "too big";
        case Errc::bad_message:
            return "bad message";
        case Errc::unsupported:
            return "unsupported";
        case Errc::timed_out:
            return "timed out";
        case Errc::closed:
            return "closed";
        case Errc::invalid_argument:
            return "invalid argument";
        case Errc::refused:
            return "refused";
        case Errc::system:
            return "system";
    }
    return "unknown";
}

std::string to_string(const Error& error) {
    std::string text = to_string(error.code);
    if (error.what != nullptr && error.what[0] != '\0') {
        text += ": ";
        text += error.what;
    }
    if (error.sys != 0) {
        text += ": ";
        text += std::generic_category().message(error.sys);
    }
    return text;
}

}  // namespace nfsrdma
