#include "tools/nfsrdma/copy_report.hpp"

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

void CopyReport::failed(const std::string& path, const std::string& why, bool quiet) {
    failures_.push_back({path, why});
    if (!quiet) complain(path, why);
}

void CopyReport::left_out(const std::string& path, const std::string& why) {
    ++omitted;
    complain(path, "left out: " + why);
}

void CopyReport::add_to(JsonObject& object) const {
    object.add("files", files)
        .add("skipped", skipped)
        .add("continued", continued)
        .add("verified", verified)
        .add("directories", directories)
        .add("links", links)
        .add("left_out", omitted)
        .add("failed", failures_.size());
    std::string list = "[";
    for (const Failure& failure : failures_) {
        if (list.size() > 1) list += ",";
        list += JsonObject().add("path", failure.path).add("error", failure.why).text();
    }
    object.add_raw("failures", list + "]");
}

std::string CopyReport::line() const {
    std::string out = std::to_string(files) + (files == 1 ? " file" : " files");
    const auto add = [&out](std::uint64_t count, const char* what) {
        if (count != 0) out += ", " + std::to_string(count) + what;
    };
    add(skipped, " skipped");
    add(continued, " continued");
    add(verified, " verified");
    add(omitted, " left out");
    add(failures_.size(), " failed");
    return out;
}

}  // namespace nfsrdma::tool
