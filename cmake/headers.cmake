# The headers that are installed: the documented face of the library, closed under #include (exports.py refuses what is not), and the
# only names that libnfsrdma.so exports. What is not here is nobody's to include. README.md, "Embed it", says where to start.
set(nr_installed_headers
  tirpc/tirpc_rdma.h

  # Waiting, results, addresses.
  base/assert.hpp
  base/bytes.hpp
  base/clock.hpp
  base/list.hpp
  base/loop.hpp
  base/prng.hpp
  base/result.hpp
  base/sock_addr.hpp
  base/thread_annotations.hpp
  base/trace.hpp
  base/unique_fd.hpp

  # ONC RPC, whatever carries it.
  sunrpc/auth.hpp
  sunrpc/binding.hpp
  sunrpc/clnt.hpp
  sunrpc/reply_cache.hpp
  sunrpc/rpc_msg.hpp
  sunrpc/svc.hpp
  sunrpc/svc_stats.hpp
  sunrpc/xdr_buf.hpp
  sunrpc/xdr_proc.hpp
  sunrpc/xdr_stream.hpp
  sunrpc/xprt.hpp
  sunrpc/xprt_group.hpp

  # Devices.
  verbs/cm.hpp
  verbs/device.hpp
  verbs/rdmacore/rdmacore.hpp
  verbs/softroce/fault_spec.hpp
  verbs/softroce/loop_wire.hpp
  verbs/softroce/softroce.hpp
  verbs/softroce/udp_wire.hpp
  verbs/softroce/wire.hpp
  verbs/wr.hpp
  devices/choice.hpp
  devices/memory.hpp
  devices/open.hpp
  devices/rdma.hpp

  # Memory with keys of its own for each use, without RPC.
  pools/buffer_pool.hpp
  pools/io.hpp
  pools/lease.hpp
  pools/link.hpp
  pools/mr_pool.hpp
  pools/page_list.hpp
  pools/provision.hpp
  pools/regions.hpp

  # RPC over RDMA.
  rpcrdma/proto.hpp
  svcrdma/listener.hpp
  svcrdma/memory_budget.hpp
  svcrdma/peer_table.hpp
  xprtrdma/transport.hpp

  # NFS version 3, the client's side.
  nfs/binding.hpp
  nfs/client/client.hpp
  nfs/client/data_observer.hpp
  nfs/client/mount_socket.hpp
  nfs/client/read_ahead.hpp
  nfs/client/read_dir.hpp
  nfs/client/read_file.hpp
  nfs/client/resend.hpp
  nfs/client/rpc_socket.hpp
  nfs/client/unstable_writes.hpp
  nfs/client/walk.hpp
  nfs/client/write_behind.hpp
  nfs/client/write_file.hpp
  nfs/nfs3_types.hpp)
