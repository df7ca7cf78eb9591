#pragma once

// Clang's thread-safety capabilities; empty for other compilers.
#if defined(__clang__)
#define NR_TS_ATTR(x) __attribute__((x))
#else
#define NR_TS_ATTR(x)
#endif
#define NR_CAPABILITY(name) NR_TS_ATTR(capability(name))
#define NR_SCOPED_CAPABILITY NR_TS_ATTR(scoped_lockable)
#define NR_GUARDED_BY(x) NR_TS_ATTR(guarded_by(x))
#define NR_REQUIRES(...) NR_TS_ATTR(requires_capability(__VA_ARGS__))
#define NR_ACQUIRE(...) NR_TS_ATTR(acquire_capability(__VA_ARGS__))
#define NR_RELEASE(...) NR_TS_ATTR(release_capability(__VA_ARGS__))
#define NR_EXCLUDES(...) NR_TS_ATTR(locks_excluded(__VA_ARGS__))
