#include "tools/nfsrdma/command_support.hpp"

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

bool parse_urls(const std::vector<std::string>& texts, std::vector<Url>& urls) {
    for (const std::string& text : texts) {
        std::string why;
        std::optional<Url> url = parse_url(text, why);
        if (!url) {
            complain("", why);
            return false;
        }
        urls.push_back(*std::move(url));
    }
    return true;
}

std::unique_ptr<Session> open_for(const Options& options, std::vector<Url>& urls, int& status) {
    status = kUsage;
    if (urls.empty() && !parse_urls(options.paths, urls)) return nullptr;
    for (const Url& url : urls) {
        if (!url.same_server(urls.front())) {
            complain(url.text(), "is on another server than " + urls.front().server() +
                                     "; one command, one server");
            return nullptr;
        }
    }
    status = kFailed;
    std::unique_ptr<Session> session = Session::open(options, urls.front());
    if (session == nullptr) return nullptr;
    for (const Url& url : urls) {
        if (!session->holds(url)) return nullptr;
    }
    status = kOk;
    return session;
}

void complain(const Url& url, const nfs::client::Outcome& outcome) {
    complain(url.text(), to_string(outcome));
}

void complain(const Url& url, std::string_view below, const nfs::client::Outcome& outcome) {
    complain(url.text() + std::string(below), to_string(outcome));
}

}  // namespace nfsrdma::tool
