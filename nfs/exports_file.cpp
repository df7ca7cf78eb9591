#include "nfs/exports_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "nfs/exports_host.hpp"
#include "nfs/fh.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::size_t kPathMax = 1024;  // MNTPATHLEN: no client could mount a longer one
constexpr std::size_t kClientsMax = 4096;

// The characters of the text with its continued lines joined: a backslash before the end of a line
// is a blank.
class Scanner {
  public:
    explicit Scanner(std::string_view text) noexcept : text_(text) {}
    bool at_end() const noexcept { return at_ >= text_.size(); }
    bool at_line_end() const noexcept { return at_end() || text_[at_] == '\n'; }
    unsigned line() const noexcept { return line_; }
    char peek() const noexcept {
        if (at_end()) return '\n';
        return continues() ? ' ' : text_[at_];
    }
    char next() noexcept {
        const char c = peek();
        at_ += continues() ? 2 : 1;
        if (c == '\n' || (c == ' ' && text_[std::min(at_, text_.size()) - 1] == '\n')) ++line_;
        return c;
    }
    void skip_blanks() noexcept {
        while (!at_end() && is_blank(peek()))
            next();
    }
    // The rest of this line, continued or not.
    void skip_line() noexcept {
        while (!at_line_end())
            next();
        if (!at_end()) next();
    }
    void skip_comment() noexcept {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (!at_end()) next();
    }
    // "\040" and the like; consumes it.
    std::optional<char> take_octal() noexcept {
        if (text_.size() - at_ < 4 || text_[at_] != '\\') return std::nullopt;
        unsigned value = 0;
        const char* const digits = text_.data() + at_ + 1;
        const auto [end, ec] = std::from_chars(digits, digits + 3, value, 8);
        if (ec != std::errc{} || end != digits + 3 || value > 0xff) return std::nullopt;
        at_ += 4;
        return static_cast<char>(static_cast<unsigned char>(value));
    }
    static bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

  private:
    bool continues() const noexcept {
        return text_.size() - at_ >= 2 && text_[at_] == '\\' && text_[at_ + 1] == '\n';
    }
    std::string_view text_;
    std::size_t at_ = 0;
    unsigned line_ = 1;
};

class Parser {
  public:
    Parser(std::string_view text, const std::string& origin, ExportIssues& issues)
        : in_(text), origin_(origin), issues_(issues) {}

    std::vector<ExportSpec> run() {
        for (in_.skip_blanks(); !in_.at_end(); in_.skip_blanks()) {
            if (in_.peek() == '#') {
                in_.skip_comment();
            } else if (in_.peek() == '\n') {
                in_.next();
            } else {
                line_ = in_.line();
                if (!parse_line()) in_.skip_line();
            }
        }
        return std::move(specs_);
    }

  private:
    std::string here() const { return origin_ + ":" + std::to_string(line_); }
    bool fail(const std::string& why) {
        issues_.errors.push_back(here() + ": " + why);
        return false;
    }
    void warn(const std::string& what) { issues_.warnings.push_back(here() + ": " + what); }

    bool parse_line() {
        std::string path;
        if (!take_path(path)) return false;
        ExportSpec line;
        line.path = line.name = normal_export_name(path);
        line.where = here();
        OptionList defaults;
        in_.skip_blanks();
        if (in_.peek() == '-') {
            in_.next();
            std::string text;
            while (!in_.at_line_end() && !Scanner::is_blank(in_.peek()))
                text.push_back(in_.next());
            if (!take_options(text, defaults)) return false;
        }
        for (in_.skip_blanks(); !in_.at_line_end() && in_.peek() != '#'; in_.skip_blanks()) {
            if (!take_client(defaults, line)) return false;
        }
        if (in_.peek() == '#') in_.skip_comment();
        if (line.rules.clients.empty()) {
            warn("no hosts are named, so that all have access; say so with *");
            line.rules.clients.push_back({{}, defaults.options});
        }
        if (line.fsid.empty()) line.fsid = defaults.fsid;
        return merge(std::move(line));
    }

    bool take_path(std::string& out) {
        const bool quoted = in_.peek() == '"';
        if (quoted) in_.next();
        while (!in_.at_line_end()) {
            if (const auto octal = in_.take_octal()) {
                out.push_back(*octal);
                continue;
            }
            const char c = in_.peek();
            if (quoted ? c == '"' : Scanner::is_blank(c)) break;
            out.push_back(in_.next());
        }
        if (quoted && in_.peek() != '"') return fail("no '\"' ends the path");
        if (quoted) in_.next();
        if (!in_.at_line_end() && !Scanner::is_blank(in_.peek())) {
            return fail("no blank between the path and what follows");
        }
        if (out.front() != '/') return fail("'" + out + "' is no absolute path");
        if (out.find('\0') != out.npos) return fail("the path has a zero byte");
        if (out.size() > kPathMax) return fail("the path is longer than 1024 bytes");
        const std::string slashed = out + "/";
        if (slashed.find("/../") != slashed.npos || slashed.find("/./") != slashed.npos) {
            return fail("the path has '.' or '..' in it");
        }
        return true;
    }

    bool take_client(const OptionList& defaults, ExportSpec& line) {
        std::string host, text;
        while (!in_.at_line_end() && in_.peek() != '(' && !Scanner::is_blank(in_.peek()))
            host.push_back(in_.next());
        const bool has_options = in_.peek() == '(';
        if (has_options && !take_parentheses(text)) return false;
        if (host.empty()) {
            return fail("options without a host: (" + text +
                        "); a host and its options have no "
                        "blank between them, and everybody is *(" +
                        text + ")");
        }
        ClientRule rule;
        OptionList list = defaults;
        std::string why;
        if (!parse_host(host, rule.host, why)) return fail("'" + host + "' " + why);
        if (has_options && !take_options(text, list)) return false;
        if (!list.fsid.empty() && !line.fsid.empty() && list.fsid != line.fsid) {
            return fail("an export has one fsid, not " + line.fsid + " and " + list.fsid);
        }
        if (!list.fsid.empty()) line.fsid = list.fsid;
        rule.options = list.options;
        return add_client(line.rules, rule);
    }

    bool take_parentheses(std::string& out) {
        in_.next();
        while (!in_.at_line_end() && in_.peek() != ')')
            out.push_back(in_.next());
        if (in_.peek() != ')') return fail("no ')' ends the options");
        in_.next();
        if (!in_.at_line_end() && !Scanner::is_blank(in_.peek())) {
            return fail("no blank after ')'");
        }
        return true;
    }

    bool take_options(const std::string& text, OptionList& out) {
        std::vector<std::string> notes;
        std::string why;
        if (!parse_client_options(text, out, notes, why)) return fail(why);
        for (const std::string& note : notes)
            issues_.notes.push_back(here() + ": " + note);
        return true;
    }

    bool add_client(ExportRules& rules, const ClientRule& rule) {
        if (rules.clients.size() == kClientsMax) return fail("more than 4096 hosts");
        for (const ClientRule& other : rules.clients) {
            if (other.host.text != rule.host.text) continue;
            if (other.options == rule.options) return true;
            return fail("'" + rule.host.text + "' is there twice with different options");
        }
        rules.clients.push_back(rule);
        return true;
    }

    bool merge(ExportSpec line) {
        const auto same = std::ranges::find(specs_, line.path, &ExportSpec::path);
        if (same == specs_.end()) {
            specs_.push_back(std::move(line));
            return true;
        }
        if (!line.fsid.empty() && !same->fsid.empty() && line.fsid != same->fsid) {
            fail("an export has one fsid, not " + same->fsid + " and " + line.fsid);
            return true;  // the line has been read
        }
        if (!line.fsid.empty()) same->fsid = line.fsid;
        for (const ClientRule& rule : line.rules.clients)
            static_cast<void>(add_client(same->rules, rule));
        return true;
    }

    Scanner in_;
    const std::string& origin_;
    ExportIssues& issues_;
    unsigned line_ = 1;
    std::vector<ExportSpec> specs_;
};

// Known in exports(5), and of no effect here: what they ask for is so anyway, or is of a protocol
// or a cache that there is not.
constexpr std::array<std::string_view, 20> kIgnored = {"sync",
                                                       "async",
                                                       "wdelay",
                                                       "no_wdelay",
                                                       "hide",
                                                       "nohide",
                                                       "crossmnt",
                                                       "subtree_check",
                                                       "no_subtree_check",
                                                       "secure_locks",
                                                       "insecure_locks",
                                                       "auth_nlm",
                                                       "no_auth_nlm",
                                                       "acl",
                                                       "no_acl",
                                                       "pnfs",
                                                       "no_pnfs",
                                                       "security_label",
                                                       "sec=sys",
                                                       "xprtsec=none"};

bool parse_id(std::string_view text, std::uint32_t& out) {
    // exports(5) has -2 for the nobody of old.
    const bool negative = !text.empty() && text.front() == '-';
    std::int64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc{} || end != text.data() + text.size()) return false;
    if (negative) value += std::int64_t{1} << 32;
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (value < 0 || value >= kMax) return false;  // -1 is no user
    out = static_cast<std::uint32_t>(value);
    return true;
}

// One option; false when it is none.
bool apply(std::string_view option, ClientOptions& out) noexcept {
    if (option == "ro" || option == "rw") {
        out.read_only = option == "ro";
    } else if (option == "secure" || option == "insecure") {
        out.secure = option == "secure";
    } else if (option == "root_squash") {
        if (out.squash == Squash::none) out.squash = Squash::root;
    } else if (option == "no_root_squash") {
        if (out.squash == Squash::root) out.squash = Squash::none;
    } else if (option == "all_squash") {
        out.squash = Squash::all;
    } else if (option == "no_all_squash") {
        if (out.squash == Squash::all) out.squash = Squash::root;
    } else {
        return false;
    }
    return true;
}

bool apply_value(std::string_view option, OptionList& out, std::string& why) {
    const std::size_t mark = option.find('=');
    const std::string_view key = option.substr(0, mark);
    const std::string_view value = mark == option.npos ? "" : option.substr(mark + 1);
    if (key == "anonuid" || key == "anongid") {
        std::uint32_t& id = key == "anonuid" ? out.options.anon_uid : out.options.anon_gid;
        if (parse_id(value, id)) return true;
        why = std::string(key) + "=" + std::string(value) + " is not a number of a user or group";
        return false;
    }
    if (key == "fsid") {
        if (export_id_of_fsid(value)) {
            out.fsid = value;
            return true;
        }
        why = "fsid=" + std::string(value) + " is neither a number, 'root' nor a UUID";
        return false;
    }
    if (key == "sec" || key == "xprtsec") {
        why = std::string(option) + " is not supported: there is only sec=sys";
    } else if (key == "mp" || key == "mountpoint" || key == "refer" || key == "replicas") {
        why = "option '" + std::string(key) + "' is not supported";
    } else {
        why = "unknown option '" + std::string(option) + "'";
    }
    return false;
}

}  // namespace

bool parse_client_options(std::string_view text, OptionList& out, std::vector<std::string>& notes,
                          std::string& why) {
    while (!text.empty()) {
        std::string_view option = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), option.size() + 1));
        while (!option.empty() && Scanner::is_blank(option.front()))
            option.remove_prefix(1);
        while (!option.empty() && Scanner::is_blank(option.back()))
            option.remove_suffix(1);
        if (option.empty() || apply(option, out.options)) continue;
        if (std::ranges::find(kIgnored, option) != kIgnored.end()) {
            notes.push_back("option " + std::string(option) + " has no effect");
        } else if (!apply_value(option, out, why)) {
            return false;
        }
    }
    return true;
}

std::vector<ExportSpec> parse_exports(std::string_view text, const std::string& origin,
                                      ExportIssues& issues) {
    return Parser(text, origin, issues).run();
}

}  // namespace nfsrdma::nfs
