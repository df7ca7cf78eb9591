# A row whose client is `nfsrdma`. The caller sets: client, the command up to its arguments; doctor and stress, those of
# `rpcrdma-doctor HOST` and `rpcrdma-stress`; url, the export; export, its directory here; stressed, the export for
# `rpcrdma-stress`; base_qps, the connections of rxe0 that have nothing to do with it.

tool() { timeout -k 5 "$limit" "${client[@]}" "$@"; }
stat_of() { awk -v name="$1" '$1 == name {print $2}' "$scratch/stats"; }

tool_connects() {
    tool ping -c 5 "$url"
}
# What both ends agree on by private data, and that it is used: a call of more than the 1,024 bytes of RFC 8166 goes inline.
# (From 2,048 on our client prefers a chunk.)
tool_agrees() {
    timeout -k 5 "$limit" "${doctor[@]}"
    "${doctor[@]}" | grep 'agreed inline: 4096 bytes to the peer, 4096 from it; we let it invalidate our keys'
    head -c 1900 "$scratch/digits" >"$scratch/inline"
    tool --stats put "$scratch/inline" "$url/inline" 2>"$scratch/stats"
    equal "$(stat_of read_chunk_calls)" 0 "calls of 1,900 bytes with chunks"
    cmp "$scratch/inline" "$export/inline"
}
tool_invalidates() { # VERB: 1 MiB is one key, invalidated by the server
    if [ "$1" = put ]; then
        tool --stats put "$scratch/files/1MiB" "$url/one" 2>"$scratch/stats"
    else
        tool --stats get "$url/one" "$scratch/one" 2>"$scratch/stats"
        cmp "$scratch/files/1MiB" "$scratch/one"
    fi
    cat "$scratch/stats"
    equal "$(stat_of keys_per_rpc)" 1.000 "keys per RPC"
    equal "$(stat_of local_invalidations)" 0 "local invalidations"
    equal "$(stat_of remote_invalidations)" "$(stat_of binds)" "remote invalidations"
    echo "note: keys per RPC $(stat_of keys_per_rpc), LOCAL_INV $(stat_of local_invalidations), of $(stat_of binds) keys"
}
tool_puts() { tool put -r "$scratch/files" "$url/files"; }
tool_gets() { rm -rf "$scratch/back" && tool get -r "$url/files" "$scratch/back"; }
tool_lists() {
    make_names "$export/names"
    tool ls "$url/names" >"$scratch/listed"
    ls "$export/names" | diff - <(sort "$scratch/listed") >&2 || fail "names differ"
    equal "$(tool ls -l "$url/names" | wc -l)" 2000 "lines of ls -l"
}
tool_links() {
    tool put -r "$scratch/links" "$url/links"
    links_of "$export/links" | cmp - "$scratch/links.list" || fail "links at the server differ"
    rm -rf "$scratch/links.back"
    tool get -r "$url/links" "$scratch/links.back"
    links_of "$scratch/links.back" | cmp - "$scratch/links.list" || fail "links that came back differ"
}
tool_renames() {
    tool mkdir "$url/there"
    tool mv "$url/files/4KiB" "$url/there/renamed"
    cmp "$scratch/files/4KiB" "$export/there/renamed"
    [ ! -e "$export/files/4KiB" ] || fail "the old name is still there"
}
tool_hard_links() {
    tool ln "$url/files/64KiB+1" "$url/there/linked"
    equal "$(stat -c %h:%i "$export/there/linked")" "2:$(stat -c %i "$export/files/64KiB+1")" "links and inode"
}
tool_sparse() {
    tool truncate -s 5G "$url/sparse"
    equal "$(stat -c %s:%b "$export/sparse")" 5368709120:0 "size and blocks"
    printf end | dd of="$export/sparse" bs=1 seek=5368709117 conv=notrunc status=none
    equal "$(tool cat --offset 5368709117 "$url/sparse")" end "the end of a sparse file"
    equal "$(tool cat --offset 4294967290 --length 12 "$url/sparse" | od -An -tx1 | tr -d ' \n0')" "" "its hole"
}
tool_in_flight() { # 64 files at a time, of sizes that go inline and that do not
    rm -rf "$scratch/many.back"
    tool --stats put -r -j 64 "$scratch/many" "$url/many" 2>"$scratch/stats"
    echo "note: calls in flight at most: $(stat_of in_flight_max)"
    [ "$(stat_of in_flight_max)" -ge "$flight" ] || fail "only $(stat_of in_flight_max) calls were in flight"
    tool --stats get -r -j 64 "$url/many" "$scratch/many.back" 2>"$scratch/stats"
    diff -r "$scratch/many" "$scratch/many.back" || fail "files differ"
}
tool_connects_again() {
    for _ in $(seq 5); do tool ping -c 1 "$url" >/dev/null; done
    equal "$(tool cat "$url/inline" | sha256sum)" "$(sha256sum <"$scratch/inline")" "contents"
}
served() { tool ping -c 1 "$url" >/dev/null; }
# A client that is killed in the middle of a copy leaves a server that serves the next one.
tool_is_killed() { # TIMES
    local pid
    for _ in $(seq "$1"); do
        "${client[@]}" put "$scratch/files/16MiB+5" "$url/killed" >/dev/null 2>&1 &
        pid=$!
        sleep 0.4
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" || true
        # Linux's server takes a connection when one of its threads no longer waits for a client that is gone, and each
        # attempt ends after ten seconds, which is little on a machine that does other things.
        served || served || served || served || served
    done
}
# tool_stress SEED SECONDS: what it did is in the note.
tool_stress() {
    timeout -k 5 "$limit" "${stress[@]}" --dir "$stressed" --seed "$1" --seconds "$2" >"$scratch/stress" || fail "$(cat "$scratch/stress")"
    cat "$scratch/stress"
    echo "note: $(head -n 1 "$scratch/stress")"
}
tool_cleans_up() {
    tool rm -r "$url/files" "$url/there" "$url/many" "$url/sparse"
    equal "$(ls "$export" | grep -c 'files\|there\|many\|sparse')" 0 "what is left"
    rm -r "${export:?}"/*
}

tool_capture() { # each procedure that a copy needs, with data by chunks and inline
    mkdir -p "$scratch/small/edges"
    cp "$scratch/files"/{0B,1B,4KiB,64KiB+1,1MiB-3} "$scratch/small"
    cp "$scratch/files/edges"/3[89]* "$scratch/small/edges"
    ln -sf 4KiB "$scratch/small/link"
    tool put -r "$scratch/small" "$url/small"
    tool ls -lR "$url/small" >/dev/null
    tool get -r "$url/small" "$scratch/small.back"
    diff -r "$scratch/small" "$scratch/small.back"
    tool mv "$url/small/1B" "$url/small/moved"
    tool rm -r "$url/small"
}

# tool_row ROW
tool_row() {
    check "$1" "connect" tool_connects || return 1
    check "$1" "private data" tool_agrees
    check "$1" "remote invalidation of WRITE" tool_invalidates put
    check "$1" "remote invalidation of READ" tool_invalidates get
    check "$1" "put files" tool_puts
    check_sums "$1" put "$export/files"
    check "$1" "get files" tool_gets
    check_sums "$1" get "$scratch/back"
    check "$1" "list 2000 names" tool_lists
    check "$1" "symlinks of 1 to 1023 bytes" tool_links
    check "$1" "rename" tool_renames
    check "$1" "hard link" tool_hard_links
    check "$1" "sparse file" tool_sparse
    limit=180 check "$1" "64 at a time" tool_in_flight
    check "$1" "clean disconnect" qps_are "$base_qps"
    check "$1" "connect again" tool_connects_again
    # The two kinds of server; a client that goes without a word is missed after two seconds.
    case $1 in
        1) limit=240 check "$1" "20 killed clients" tool_is_killed 20 ;;
        4) limit=240 check "$1" "5 killed clients" tool_is_killed 5 ;;
    esac
    check "$1" "remove" tool_cleans_up
}
