/*
 * depot_client tcp|rdma HOST PORT put NAME FILE | get NAME | list | remove NAME
 * Beyond depot_connect nothing here knows how the calls travel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "depot_common.h"

static int put(CLIENT* client, char* name, const char* path) {
    depot_item item = {0};
    depot_put_res* result;
    FILE* const file = fopen(path, "rb");
    size_t i;
    item.about.name = name;
    item.data.data_val = malloc(DEPOT_DATA_MAX);
    if (file == NULL || item.data.data_val == NULL) {
        perror(path);
        return 1;
    }
    item.data.data_len = (u_int)fread(item.data.data_val, 1, DEPOT_DATA_MAX, file);
    fclose(file);
    for (i = 0; i < item.data.data_len; ++i)
        item.guard += (unsigned char)item.data.data_val[i];
    result = depot_put_1(&item, client);
    if (result == NULL) {
        clnt_perror(client, "put");
    } else if (result->status != DEPOT_OK) {
        fprintf(stderr, "put: the depot is full\n");
    }
    free(item.data.data_val);
    return result == NULL || result->status != DEPOT_OK;
}

static int get(CLIENT* client, char* name) {
    depot_get_res* const result = depot_get_1(&name, client);
    if (result == NULL) {
        clnt_perror(client, "get");
        return 1;
    }
    if (result->status != DEPOT_OK) {
        fprintf(stderr, "get: there is no %s\n", name);
        return 1;
    }
    fwrite(result->depot_get_res_u.item.data.data_val, 1,
           result->depot_get_res_u.item.data.data_len, stdout);
    clnt_freeres(client, (xdrproc_t)xdr_depot_get_res, (char*)result);
    return 0;
}

static int list(CLIENT* client) {
    u_int most = DEPOT_ITEMS_MAX;
    depot_list_res* const result = depot_list_1(&most, client);
    const depot_entry* entry;
    if (result == NULL) {
        clnt_perror(client, "list");
        return 1;
    }
    for (entry = result->first; entry != NULL; entry = entry->next)
        printf("%8u %s\n", entry->bytes, entry->about.name);
    clnt_freeres(client, (xdrproc_t)xdr_depot_list_res, (char*)result);
    return 0;
}

static int take_away(CLIENT* client, char* name) {
    bool_t* const result = depot_remove_1(&name, client);
    if (result == NULL) clnt_perror(client, "remove");
    return result == NULL || !*result;
}

int main(int argc, char** argv) {
    static const char usage[] = "tcp|rdma HOST PORT put NAME FILE | get NAME | list | remove NAME";
    struct depot_options options;
    char** const words = argv + depot_parse(argc, argv, &options, usage);
    const long count = argv + argc - words;
    CLIENT* client;
    int status = 2;
    if (count < 4) {
        fprintf(stderr, "usage: %s [OPTION...] %s\n", argv[0], usage);
        return 2;
    }
    client = depot_connect(words[0], words[1], words[2], &options);
    if (client == NULL) {
        clnt_pcreateerror(argv[0]);
        return 1;
    }
    if (strcmp(words[3], "put") == 0 && count == 6) status = put(client, words[4], words[5]);
    if (strcmp(words[3], "get") == 0 && count == 5) status = get(client, words[4]);
    if (strcmp(words[3], "list") == 0 && count == 4) status = list(client);
    if (strcmp(words[3], "remove") == 0 && count == 5) status = take_away(client, words[4]);
    clnt_destroy(client);
    return status;
}
