# RPCSEC_GSS over RDMA and over TCP, with a KDC of the test's own: tirpc_gss.sh BIN. The same results under service none,
# integrity and privacy over both, with the table of what is placed by RDMA and without; placed is only what is not wrapped. The
# KDC listens at a loopback address of the test's own, with all it has in a temporary folder: nothing of the system is used.
BIN=$1
source "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin
for program in krb5kdc kdb5_util kadmin.local; do
    command -v $program >/dev/null || skip "root: to install $program (packages krb5-kdc, krb5-admin-server)"
done
command -v kinit >/dev/null || skip "root: to install kinit (package krb5-user)"
[ -x "$BIN/nfsrdma_tirpc_gss" ] || skip "root: to install the header of GSSAPI (package libkrb5-dev) before the build"

a=$(address)
realm=NFSRDMA.TEST host=server.nfsrdma.test
service=echo@$host
kdc_port=$((RANDOM % 8000 + 20000))
mkdir "$work/kdc"
cat >"$work/krb5.conf" <<END
[libdefaults]
    default_realm = $realm
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    $realm = {
        kdc = $a:$kdc_port
    }
[domain_realm]
    $host = $realm
END
cat >"$work/kdc.conf" <<END
[kdcdefaults]
    kdc_listen = $a:$kdc_port
    kdc_tcp_listen = $a:$kdc_port
[realms]
    $realm = {
        database_name = $work/kdc/principal
        key_stash_file = $work/kdc/stash
        acl_file = $work/kdc/acl
        max_life = 1h
    }
[logging]
    kdc = FILE:$work/kdc.log
END
export KRB5_CONFIG=$work/krb5.conf KRB5_KDC_PROFILE=$work/kdc.conf KRB5CCNAME=FILE:$work/ccache KRB5RCACHENAME=dfl:
export KRB5RCACHEDIR=$work KRB5_KTNAME=FILE:$work/server.keytab
kdb5_util -r $realm create -s -P "$RANDOM$RANDOM" >"$work/kdb.log" 2>&1 || { cat "$work/kdb.log" >&2; fail "no database"; }
admin() { kadmin.local -r $realm -q "$1" >>"$work/kdb.log" 2>&1 || { cat "$work/kdb.log" >&2; fail "$1"; }; }
admin "addprinc -randkey echo/$host"
admin "addprinc -randkey alice"
admin "ktadd -k $work/server.keytab echo/$host"
admin "ktadd -k $work/alice.keytab alice"
krb5kdc -n -r $realm >"$work/krb5kdc.log" 2>&1 &
kdc_pid=$!
pids+=("$kdc_pid")
for i in $(seq 600); do
    kinit -k -t "$work/alice.keytab" alice 2>"$work/kinit.log" && break
    kill -0 "$kdc_pid" 2>/dev/null || { cat "$work/krb5kdc.log" "$work/kdc.log" >&2; fail "krb5kdc ended at start"; }
    [ "$i" -lt 600 ] || { cat "$work/kinit.log" >&2; fail "no ticket in a minute"; }
    sleep 0.1
done

start_echo() { # table|whole
    "$BIN/nfsrdma_tirpc_gss" serve "$a" "$service" "$1" >"$work/serve" 2>"$work/serve.err" &
    echo_pid=$!
    pids+=("$echo_pid")
    wait_until_ready "$echo_pid" "$work/serve" '^serving' "the server" "$work/serve.err"
    read -r tcp_port rdma_port < <(sed -n 's/^serving at TCP port \(.*\) and RDMA port \(.*\)/\1 \2/p' "$work/serve")
}
end_echo() {
    kill -0 "$echo_pid" 2>/dev/null || { cat "$work/serve.err" >&2; fail "the server ended meanwhile"; }
    kill -TERM "$echo_pid"
    wait "$echo_pid" || true
}
call() { # NAME tcp|rdma PORT none|integrity|privacy|sys table|whole
    timeout 300 "$BIN/nfsrdma_tirpc_gss" call "$2" "$a" "$3" "$service" "$4" "$5" >"$work/$1" 2>"$work/$1.err" ||
        { status=$?; cat "$work/$1.err" >&2; fail "$1: status $status"; }
    [ -e "$work/first" ] || cp "$work/$1" "$work/first"
    # Those over TCP may end sooner.
    head -n "$(wc -l <"$work/$1")" "$work/first" | diff - "$work/$1" >"$work/diff" ||
        { head -n 20 "$work/diff" >&2; fail "$1: other results"; }
    [ "$2" = tcp ] || [ "$(wc -l <"$work/$1")" = 96 ] || fail "$1: $(wc -l <"$work/$1") calls"
}

# A client that leaves a context, and libtirpc where it is refused one, leave its memory, too.
leaving() { ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "$@"; }
for table in table whole; do
    start_echo $table
    # The next connection has what was the server's of this one, after two seconds, but not its security.
    for i in 1 2; do
        leaving timeout 60 "$BIN/nfsrdma_tirpc_gss" abandon "$a" "$rdma_port" "$service" || fail "a client after $((i - 1)) that left their contexts"
        sleep 3
    done
    for level in sys none integrity privacy; do
        call rdma.$level.$table rdma "$rdma_port" $level $table
        [ $table = whole ] || call tcp.$level tcp "$tcp_port" $level $table
        echo "$level, $table: $(cat "$work/rdma.$level.$table.err")"
    done
    leaving timeout 60 "$BIN/nfsrdma_tirpc_gss" refused "$a" "$rdma_port" nobody@$host || fail "a service that is unknown"
    end_echo
done
