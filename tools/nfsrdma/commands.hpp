#pragma once
#include "tools/nfsrdma/options.hpp"

// One function a subcommand: does its job and returns the exit status. What goes wrong is said on
// standard error.
namespace nfsrdma::tool {

int run_ls(const Options& options);
int run_stat(const Options& options);
int run_cat(const Options& options);
int run_get(const Options& options);
int run_put(const Options& options);
int run_mkdir(const Options& options);
int run_rm(const Options& options);
int run_mv(const Options& options);
int run_ln(const Options& options);
int run_chmod(const Options& options);
int run_chown(const Options& options);
int run_touch(const Options& options);
int run_truncate(const Options& options);
int run_df(const Options& options);
int run_ping(const Options& options);
int run_showmount(const Options& options);
int run_stats(const Options& options);

}  // namespace nfsrdma::tool
