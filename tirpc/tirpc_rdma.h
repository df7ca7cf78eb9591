#ifndef NFSRDMA_TIRPC_RDMA_H
#define NFSRDMA_TIRPC_RDMA_H

/*
 * ONC RPC over RDMA (RFC 8166) for programs written for libtirpc: a CLIENT and a SVCXPRT like those
 * of clnt_vc_create and svc_vc_create, to be used with the stubs that rpcgen made, unchanged.
 *
 * What moves by RDMA. A table (struct rpcrdma_ulb) names, for a program, the `opaque<>` or
 * `string<>` item of each procedure's arguments and results that may be placed by RDMA. Programs
 * without a table work all the same: their long messages go whole, by RDMA. NFS version 3 has its
 * table built in.
 *
 * Threads. A CLIENT may be used by any number of threads at a time, with stubs that are made for
 * that (rpcgen -M). A SVCXPRT belongs to the thread that runs svc_run, as with every other
 * transport of libtirpc; only svc_rdma_wake is for other threads. The library makes threads of its
 * own, one for each CLIENT and each listener, with all signals blocked; so make them after fork(2),
 * not before.
 *
 * Failures are those of libtirpc: NULL and rpc_createerr (clnt_pcreateerror), an enum clnt_stat
 * (clnt_perror).
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rpc/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RPCRDMA_PORT 20049 /* NFS over RDMA (RFC 8267) */

/*
 * How a CLIENT or a listener is made. Zero means the default, in every member but `size`; NULL in
 * place of the struct means all defaults. Nothing of it is kept by reference.
 */
struct rpcrdma_opts {
    uint32_t size;      /* sizeof(struct rpcrdma_opts), which later versions may enlarge */
    uint32_t flags;     /* RPCRDMA_... */
    const char* device; /* "softroce" (the default), "rdmacore", "rdmacore:NAME", "auto" */
    /* softroce: its local address, with or without a UDP port ("127.0.0.1", "[::1]:4791"). By
     * default the one that leads to the server, or the one to listen on, with port 4791 or, at a
     * client where that is taken, a free one. */
    const char* bind;
    uint16_t peer_udp_port;      /* softroce: UDP port of the server's device; 4791 */
    uint16_t port;               /* clnt_rdma_create: the server's RDMA port; 20049 */
    uint32_t connect_timeout_ms; /* 10,000 */
    uint32_t credits;            /* calls in flight on a connection; 16 */
    uint32_t inline_size;        /* bytes of an RDMA Send; 4096, at least 1024 */
    /* Rounded up to a multiple of 4. */
    uint32_t max_payload; /* bytes of one item that is placed by RDMA; 1 MiB, at most 64 MiB */
    uint32_t max_message; /* bytes of a message without such an item; 1 MiB, at most 64 MiB */
    /* Bytes of the largest reply, without an item that is placed, of procedures of which no table
     * says it; max_message. Room is offered for it with each such call. */
    uint32_t reply_max;
    uint32_t connections_max; /* of a listener; 1024 */
};

/* Set every member of `opts` to its default. */
#define RPCRDMA_OPTS_INIT \
    { sizeof(struct rpcrdma_opts), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * The item that is placed lies in the connection's own memory, and is not copied (decoded so is
 * only an item of RPCRDMA_IN_PLACE):
 *   client, results  the pointer of the item points there until clnt_freeres, which is to be called
 *                    in place of xdr_free, before clnt_destroy;
 *   client, calls    an item that lies in memory of clnt_rdma_alloc is not copied, with or without
 *                    this flag;
 *   server, calls    the pointer of the item points there until the dispatch routine returns:
 *                    a service that keeps or frees it itself must not ask for this;
 *   server, results  an item that lies in memory of svc_rdma_alloc is not copied, with or without
 *                    this flag.
 */
#define RPCRDMA_ZERO_COPY 0x1u
/* Connect again when a connection is lost, and send again, with its XID, what was not answered; a
 * server that has no reply cache may execute such a call twice. By default the CLIENT fails from
 * then on, as one of clnt_vc_create. */
#define RPCRDMA_RECONNECT 0x2u
/* clnt_rdma_create: ask the server's rpcbind for the port, by rpcb_rdma_getaddr. */
#define RPCRDMA_RPCBIND 0x4u
/* svc_rdma_create: several threads run svc_run at a time. Each request is dispatched by one of
 * them, and each connection's by one at a time. libtirpc's own tables are no good for that; so they
 * are made large enough for connections_max before, and an fd is not closed while a thread may be
 * about to poll it. Only listeners with this flag, made before the threads run, may be served so;
 * destroy them when at most one does. */
#define RPCRDMA_SVC_THREADS 0x8u

/* ---- Client ---------------------------------------------------------------------------------- */

/*
 * Connects to `host`: a name or a numeric address, of IPv4 or IPv6. NULL on failure, and
 * rpc_createerr says why: RPC_UNKNOWNHOST; RPC_SYSTEMERROR with cf_error.re_errno (ECONNREFUSED,
 * ETIMEDOUT, ENODEV, EINVAL for options that make no sense ...); RPC_PROGNOTREGISTERED and
 * RPC_RPCBFAILURE with RPCRDMA_RPCBIND. rpcrdma_strerror says more.
 */
CLIENT* clnt_rdma_create(const char* host, rpcprog_t prog, rpcvers_t vers,
                         const struct rpcrdma_opts* opts);

/*
 * A CLIENT is as one of clnt_vc_create, but for this.
 *   Calls that time out keep their place on the connection until the server answers them after all,
 *   but neither the arguments nor the results of the program: those are its own again at once, and
 *   nothing of the program's own memory is ever shown to the server. A server that drops calls
 *   without an answer takes a place with each: when calls that timed out, and one-way ones, have
 *   all of them, and no reply came for about 60 seconds, the connection is ended, and is lost as
 *   below.
 *   One-way calls (a timeout of zero) wait for no answer, but each keeps a credit until the server
 *   answers it, which most servers do though nobody waits for it. They never take the last credit:
 *   when all but one are theirs, the next one waits for up to two seconds and then fails with
 *   RPC_CANTSEND and EAGAIN. A connection has one credit only until its first reply: so a one-way
 *   call that comes first on a connection, a new one of RPCRDMA_RECONNECT too, makes a call of
 *   procedure 0 of its own and waits for the answer, for up to two seconds as well.
 *   A connection that is lost fails the calls under way with RPC_CANTRECV, and all later ones with
 *   RPC_CANTSEND (see RPCRDMA_RECONNECT).
 *   clnt_geterr, and so clnt_perror, tell a thread of its own last call.
 *   The fd of CLGET_FD has the addresses of both ends, and never anything to read.
 *   clnt_destroy waits for the calls of other threads to return; a clnt_rdma_alloc that waits
 *   returns NULL.
 */

/* The same, to an address of AF_INET or AF_INET6 with its port. */
CLIENT* clnt_rdma_tli_create(const struct sockaddr* server, socklen_t length, rpcprog_t prog,
                             rpcvers_t vers, const struct rpcrdma_opts* opts);

/*
 * Memory of the connection, page-aligned, for an item of arguments that a table names: it goes to
 * the wire without a copy. At most max_payload bytes. Waits while calls under way have what there
 * is, for up to 25 seconds. NULL when there can be none: too large, the connection is gone, or all
 * that there is belongs to the program already, by this function or as zero-copy results, or to
 * calls that timed out; there are a few more pieces than credits, of max_payload bytes each. Give
 * it back, any time after the call has returned, before clnt_destroy.
 */
void* clnt_rdma_alloc(CLIENT* clnt, uint32_t bytes);
void clnt_rdma_free(CLIENT* clnt, void* memory);

/* clnt_control requests beyond those of clnt_vc_create. */
#define CLRDMA_SET_REPLY_MAX 0x52440001u /* uint32_t *: rpcrdma_opts.reply_max, from now on */
#define CLRDMA_GET_REPLY_MAX 0x52440002u /* uint32_t * */
#define CLRDMA_GET_STATS 0x52440003u     /* struct rpcrdma_stats * */

/* Exact counts, of a CLIENT or of all connections of a listener. Set `size` before asking. */
struct rpcrdma_stats {
    uint32_t size; /* sizeof(struct rpcrdma_stats) */
    uint32_t connections;
    uint64_t calls, replies;
    uint64_t inline_calls;      /* without any chunk for the call itself */
    uint64_t read_chunk_calls;  /* an item of the arguments went by RDMA */
    uint64_t long_calls;        /* the whole call went by RDMA */
    uint64_t write_chunk_calls; /* results: an item was offered, or went, by RDMA */
    uint64_t reply_chunk_calls; /* results: a whole reply was offered room, or went, by RDMA */
    uint64_t keys_bound, remote_invalidations, local_invalidations;
    uint64_t payload_copied_bytes; /* of items that a table names, copied by the CPU */
    uint64_t late_replies;         /* to calls that had timed out */
};

/* ---- Server ---------------------------------------------------------------------------------- */

/*
 * Listens and registers the listener with libtirpc, for svc_run, svc_getreq_poll or svc_getreqset.
 * `address` is "ADDR", "ADDR:PORT", "[ADDR6]:PORT", ":PORT" or NULL (any address); the port is
 * 20049 where none is said, and a free one where it is 0 (see xp_port). Then svc_reg(xprt, prog,
 * vers, dispatch, NULL). NULL on failure with errno, and a line that rpcrdma_strerror gives.
 * svc_destroy of the listener ends its connections; of a connection, that one, when its last answer
 * has arrived, or after five seconds; the connections of a listener, after one second at most. Both
 * may be called by a dispatch routine, for what is being dispatched, too.
 *
 * Make, serve and destroy it by one thread, as libtirpc has it (or see RPCRDMA_SVC_THREADS). While
 * a dispatch routine runs, a thread of the library receives and moves data of other calls; they are
 * dispatched when it has returned. With RPCRDMA_ZERO_COPY a reply is sent when the arguments are
 * freed, or the routine returns.
 *
 * A connection takes two fds, from its first call on. Without free fds, or with more connections
 * than connections_max, the one that was idle longest, for a second at least, is ended; while none
 * was, new ones wait for an fd, and are refused beyond connections_max. One whose fd has no place
 * in libtirpc's table, which is as large as RLIMIT_NOFILE was at its first use, is refused and a
 * line is logged. svc_getreqset serves fds below FD_SETSIZE only.
 */
SVCXPRT* svc_rdma_create(const char* address, const struct rpcrdma_opts* opts);

/*
 * Makes the poll of svc_run return, so that it sees what svc_exit or svc_reg did meanwhile. Any
 * thread; a signal handler too; but not beside the svc_destroy of this listener.
 */
void svc_rdma_wake(SVCXPRT* xprt);

/*
 * Memory of the connection for the item of the results of the request that is being dispatched,
 * from where it goes to the wire without a copy; page-aligned. NULL when the client gave no place
 * for it or it is larger than that: then the item lies where it may. It is gone when the dispatch
 * routine returns.
 */
void* svc_rdma_alloc(SVCXPRT* xprt, uint32_t bytes);

/* svc_control requests. */
#define SVCRDMA_GET_STATS 0x52440101u /* struct rpcrdma_stats * */

/* ---- What may be placed by RDMA -------------------------------------------------------------- */

/*
 * One `opaque<>` or `string<>` member of an argument or result struct (RFC 8166 s6: a DDP-eligible
 * item). It is found by its pointer, so it makes no difference whether other members are empty, or
 * which arm of a union is there; but see RPCRDMA_IN_PLACE.
 */
struct rpcrdma_ddp {
    int32_t ptr_off; /* offsetof(struct, member.member_val), or 0 for a string; -1: there is none */
    /* Calls: shorter ones stay in the message; 0: the CLIENT's own limit. Results have none. */
    uint32_t min;
    /* 0 or RPCRDMA_IN_PLACE for `opaque<>`; the bound of a `string<bound>`, which is never decoded
     * in place. */
    uint32_t string_bound;
    /* Where the item is not at a fixed place of the struct: tells whether the `bytes` at `at` are
     * it. Then ptr_off does not matter. For encoding only: such an item is decoded by a copy. */
    bool_t (*match)(const void* object, const char* at, uint32_t bytes);
};
/*
 * With RPCRDMA_ZERO_COPY the item is decoded in place: its pointer is set before the struct is
 * decoded. So no other arm of a union may have a pointer at the same place of the struct (a
 * `string<>`, an optional member, another `opaque<>` ...): the peer chooses the arm, and would
 * write where that leads.
 */
#define RPCRDMA_IN_PLACE 0x80000000u
#define RPCRDMA_NO_DDP \
    { -1, 0, 0, NULL }
#define RPCRDMA_DDP(type, member) \
    { offsetof(type, member), 0, 0, NULL }
#define RPCRDMA_DDP_IN_PLACE(type, member) \
    { offsetof(type, member), 0, RPCRDMA_IN_PLACE, NULL }
#define RPCRDMA_DDP_STRING(type, member, bound) \
    { offsetof(type, member), 0, (bound), NULL }

struct rpcrdma_proc {
    uint32_t proc;
    struct rpcrdma_ddp arg, res;
    /* Bytes that the item of the results may have, by the arguments. NULL: max_payload. */
    uint32_t (*res_max)(const void* args);
    /* Upper bound of the encoded results without that item. NULL: rpcrdma_opts.reply_max. */
    uint32_t (*reply_max)(const void* args);
};

struct rpcrdma_ulb {
    uint32_t size;      /* sizeof(struct rpcrdma_ulb) */
    uint32_t proc_size; /* sizeof(struct rpcrdma_proc); by both the library knows the version */
    uint32_t prog, vers;
    uint32_t proc_count;
    const struct rpcrdma_proc* procs; /* in any order; those that are left out have no item */
};
#define RPCRDMA_ULB(prog, vers, proc_count, procs)                                             \
    {                                                                                          \
        sizeof(struct rpcrdma_ulb), sizeof(struct rpcrdma_proc), (prog), (vers), (proc_count), \
            (procs)                                                                            \
    }

/*
 * The upper-layer binding of a program and version, of this process, for CLIENTs and listeners;
 * before the first call. Both ends need the same items (RFC 8166 s6). It is copied. 0, or EINVAL:
 * a size, an offset, a bound or a number that makes no sense; EEXIST: there is another one for it
 * already (the built-in one of NFS version 3 gives way); ENOMEM.
 */
int rpcrdma_ulb_register(const struct rpcrdma_ulb* ulb);

/* ---- rpcbind --------------------------------------------------------------------------------- */

/*
 * By netids rdma and rdma6 (RFC 5665). Optional, and off unless called: once a program has an entry
 * of them, rpcbind does not answer RPCBPROC_GETADDRLIST for it any more.
 */
/* With this machine's rpcbind. FALSE, with errno, when it does not run, or another address is set.
 */
bool_t rpcb_rdma_set(rpcprog_t prog, rpcvers_t vers, const SVCXPRT* listener);
/* Of both netids. FALSE, with errno, when it does not run, or another user registered one. */
bool_t rpcb_rdma_unset(rpcprog_t prog, rpcvers_t vers);
/* The RDMA address of a program at `host`. FALSE with rpc_createerr: RPC_UNKNOWNHOST,
 * RPC_RPCBFAILURE, RPC_PROGNOTREGISTERED. */
bool_t rpcb_rdma_getaddr(const char* host, rpcprog_t prog, rpcvers_t vers,
                         struct sockaddr_storage* address);

/* What the last failing call of this thread into this library failed of, for people; "" at first.
 */
const char* rpcrdma_strerror(void);

#ifdef __cplusplus
}
#endif
#endif
