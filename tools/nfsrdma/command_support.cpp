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
    std::unique_ptr<Session> session = Session::open(options, urls.front(), true, status);
    if (session == nullptr) return nullptr;
    for (const Url& url : urls) {
        if (session->holds(url)) continue;
        status = kFailed;
        return nullptr;
    }
    return session;
}

std::unique_ptr<Session> open_server(const Options& options, const std::string& server,
                                     int& status) {
    status = kUsage;
    std::string why;
    const std::optional<Url> url = parse_server(server, why);
    if (!url) {
        complain("", why);
        return nullptr;
    }
    return Session::open(options, *url, false, status);
}

int for_each(Session& session, const std::vector<Url>& urls,
             const std::function<bool(const Url&)>& work) {
    int status = kOk;
    for (const Url& url : urls) {
        if (session.interrupted()) break;
        if (!work(url)) status = kFailed;
    }
    session.print_summary({}, JsonObject());
    return session.status(status);
}

Found destination(Session& session, const Url& to, const std::string& name) {
    Found found = session.walk(to, true);
    if (found.outcome.ok() && found.attributes.type == NF3DIR) {
        found.name = name;
        return found;
    }
    return session.walk_to_parent(to);
}

}  // namespace nfsrdma::tool
