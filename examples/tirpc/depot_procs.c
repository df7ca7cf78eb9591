/* What the depot does: the procedures that rpcgen's dispatch routine calls. */
#include <stdlib.h>
#include <string.h>

#include "depot.h"

static depot_item* items[DEPOT_ITEMS_MAX];
static u_int count;
static u_quad_t last_number;

static depot_item** find(const char* name) {
    u_int i;
    for (i = 0; i < count; ++i)
        if (strcmp(items[i]->about.name, name) == 0) return &items[i];
    return NULL;
}
static void drop(depot_item** item) {
    xdr_free((xdrproc_t)xdr_depot_item, (char*)*item);
    free(*item);
    *item = items[--count];
}

void* depot_null_1_svc(void* nothing, struct svc_req* request) {
    (void)request;
    return nothing;
}

/* The arguments are freed when this returns; what is kept of them is taken out of them. */
depot_put_res* depot_put_1_svc(depot_item* item, struct svc_req* request) {
    static depot_put_res result;
    depot_item** const old = find(item->about.name);
    (void)request;
    if (old != NULL) drop(old);
    result.status = DEPOT_NO_ROOM;
    result.depot_put_res_u.items_max = DEPOT_ITEMS_MAX;
    if (count == DEPOT_ITEMS_MAX) return &result;
    items[count] = malloc(sizeof *item);
    if (items[count] == NULL) return NULL;
    item->about.number = ++last_number;
    *items[count++] = *item;
    memset(item, 0, sizeof *item);
    result.status = DEPOT_OK;
    result.depot_put_res_u.number = last_number;
    return &result;
}

depot_get_res* depot_get_1_svc(char** name, struct svc_req* request) {
    static depot_get_res result;
    depot_item** const item = find(*name);
    (void)request;
    result.status = item != NULL ? DEPOT_OK : DEPOT_NOT_FOUND;
    if (item != NULL) result.depot_get_res_u.item = **item;
    return &result;
}

depot_list_res* depot_list_1_svc(u_int* most, struct svc_req* request) {
    static depot_entry entries[DEPOT_ITEMS_MAX];
    static depot_list_res result;
    const u_int n = *most < count ? *most : count;
    u_int i;
    (void)request;
    for (i = 0; i < n; ++i) {
        entries[i].about = items[i]->about;
        entries[i].bytes = items[i]->data.data_len;
        entries[i].next = i + 1 < n ? &entries[i + 1] : NULL;
    }
    result.first = n != 0 ? entries : NULL;
    result.complete = n == count;
    return &result;
}

bool_t* depot_remove_1_svc(char** name, struct svc_req* request) {
    static bool_t result;
    depot_item** const item = find(*name);
    (void)request;
    result = item != NULL;
    if (item != NULL) drop(item);
    return &result;
}

depot_data* depot_reverse_1_svc(depot_data* data, struct svc_req* request) {
    u_int i;
    (void)request;
    for (i = 0; i < data->depot_data_len / 2; ++i) {
        char* const other = &data->depot_data_val[data->depot_data_len - 1 - i];
        const char byte = data->depot_data_val[i];
        data->depot_data_val[i] = *other;
        *other = byte;
    }
    return data;
}

char** depot_version_1_svc(void* nothing, struct svc_req* request) {
    static char* version = "depot 1";
    (void)nothing, (void)request;
    return &version;
}
