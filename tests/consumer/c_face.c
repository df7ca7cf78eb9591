/*
 * The C face from outside of the tree: a server in a child process under svc_run, a client here.
 * It has XDR routines with names of nfs3.x for types of its own, as a program may that serves NFS
 * by other means: those of the library must not be taken for them, nor the other way round.
 * Usage: c_face ADDRESS; ADDRESS is one of this machine.
 */
#include <nfsrdma/tirpc/tirpc_rdma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROG 0x20000777u
#define VERS 1u
#define ECHO 1u
#define BYTES_MAX (1u << 20)

struct blob {
    u_int length;
    char* data;
};

bool_t xdr_READ3args(XDR* xdr, struct blob* blob);
bool_t xdr_READ3args(XDR* xdr, struct blob* blob) {
    return xdr_bytes(xdr, &blob->data, &blob->length, BYTES_MAX);
}

static void dispatch(struct svc_req* request, SVCXPRT* xprt) {
    struct blob blob = {0, NULL};
    u_int i;
    switch (request->rq_proc) {
        case NULLPROC:
            svc_sendreply(xprt, (xdrproc_t)xdr_void, NULL);
            return;
        case ECHO:
            if (!svc_getargs(xprt, (xdrproc_t)xdr_READ3args, (caddr_t)&blob)) {
                svcerr_decode(xprt);
                return;
            }
            for (i = 0; i < blob.length; ++i)
                blob.data[i] = (char)~blob.data[i];
            svc_sendreply(xprt, (xdrproc_t)xdr_READ3args, (char*)&blob);
            svc_freeargs(xprt, (xdrproc_t)xdr_READ3args, (caddr_t)&blob);
            return;
        default:
            svcerr_noproc(xprt);
    }
}

static int serve(const char* address, int port_pipe) {
    char where[64];
    SVCXPRT* listener;
    snprintf(where, sizeof where, "%s:0", address);
    listener = svc_rdma_create(where, NULL);
    if (listener == NULL) {
        fprintf(stderr, "svc_rdma_create: %s\n", rpcrdma_strerror());
        return 1;
    }
    if (!svc_reg(listener, PROG, VERS, dispatch, NULL)) return 1;
    if (write(port_pipe, &listener->xp_port, sizeof listener->xp_port) < 0) return 1;
    close(port_pipe);
    svc_run();
    return 1;
}

static int echo(CLIENT* client, u_int bytes) {
    const struct timeval patience = {30, 0};
    struct blob blob = {bytes, malloc(bytes + 1)}, back = {0, NULL};
    enum clnt_stat status;
    u_int i;
    int same;
    if (blob.data == NULL) return 1;
    for (i = 0; i < bytes; ++i)
        blob.data[i] = (char)(i * 7u);
    status = clnt_call(client, ECHO, (xdrproc_t)xdr_READ3args, (caddr_t)&blob,
                       (xdrproc_t)xdr_READ3args, (caddr_t)&back, patience);
    if (status != RPC_SUCCESS) {
        clnt_perror(client, "echo");
        return 1;
    }
    same = back.length == bytes;
    for (i = 0; same && i < bytes; ++i)
        same = back.data[i] == (char)~blob.data[i];
    clnt_freeres(client, (xdrproc_t)xdr_READ3args, (caddr_t)&back);
    free(blob.data);
    if (!same) fprintf(stderr, "echo of %u bytes: other bytes came back\n", bytes);
    return same ? 0 : 1;
}

static int call(const char* address, unsigned short port) {
    const struct timeval patience = {30, 0};
    struct rpcrdma_opts opts = RPCRDMA_OPTS_INIT;
    CLIENT* client;
    int failed;
    opts.port = port;
    opts.max_message = BYTES_MAX + 4096;
    client = clnt_rdma_create(address, PROG, VERS, &opts);
    if (client == NULL) {
        clnt_pcreateerror("clnt_rdma_create");
        fprintf(stderr, "%s\n", rpcrdma_strerror());
        return 1;
    }
    failed = clnt_call(client, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL,
                       patience) != RPC_SUCCESS;
    failed = failed || echo(client, 0) || echo(client, 100) || echo(client, 100 * 1000);
    clnt_destroy(client);
    return failed;
}

int main(int argc, char** argv) {
    int port_pipe[2], failed = 1;
    unsigned short port = 0;
    pid_t server;
    if (argc != 2 || pipe(port_pipe) != 0) return 2;
    server = fork();
    if (server < 0) return 2;
    if (server == 0) {
        alarm(60);
        close(port_pipe[0]);
        _exit(serve(argv[1], port_pipe[1]));
    }
    close(port_pipe[1]);
    if (read(port_pipe[0], &port, sizeof port) == (ssize_t)sizeof port)
        failed = call(argv[1], port);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    if (!failed) puts("c_face: ok");
    return failed;
}
