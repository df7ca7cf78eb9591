#include "tools/nfsrdma/stream_put.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "tests/tools/nfsrdma/tree_test.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {
namespace {

class StreamPutTest : public testing::ToolWorld {
  protected:
    bool put(int fd, const std::string& name) {
        Found target = calls->walk(url, true);
        target.name = name;
        return put_stream(*calls, fd, target, name, *progress, report);
    }
    std::string get(const std::string& name) {
        CopyReport got;
        TreeGetter getter(*calls, CopyOptions{}, *progress, got);
        getter.get(at("/" + name), local.fd(), name, local / name);
        EXPECT_TRUE(getter.finish());
        return local.read(name);
    }
    CopyReport report;
};

TEST_F(StreamPutTest, EverySize) {
    for (const std::size_t size : {0u, 1u, 4096u, 1048576u, 1048577u, 5000000u}) {
        std::string data(size, '\0');
        for (std::size_t i = 0; i < size; ++i)
            data[i] = testing::file_byte(i);
        local.write("source", data);
        const UniqueFd fd(::open((local / "source").c_str(), O_RDONLY | O_CLOEXEC));
        ASSERT_TRUE(put(fd.get(), "stream")) << size;
        EXPECT_EQ(get("stream"), data) << size;
    }
    EXPECT_EQ(report.files, 6u);
}

TEST_F(StreamPutTest, PipesComeInPieces) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    ASSERT_EQ(::write(writer.get(), "hello ", 6), 6);
    ASSERT_EQ(::write(writer.get(), "world", 5), 5);
    writer.reset();
    ASSERT_TRUE(put(reader.get(), "piped"));
    EXPECT_EQ(get("piped"), "hello world");
}

TEST_F(StreamPutTest, AnUnreadableSourceIsAFailure) {
    EXPECT_FALSE(put(local.fd(), "dir"));  // a directory cannot be read so
    ASSERT_EQ(report.failures().size(), 1u);
    EXPECT_NE(report.failures()[0].why.find("read standard input"), std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::tool
