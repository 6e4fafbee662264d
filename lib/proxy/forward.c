#include "proxy/forward.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* Connection options looked at; each is compared with each field. */
#define MAX_NOMINATIONS 64

void wr_forward_init(struct wr_forward *forward, const struct wr_forward_options *options)
{
    *forward = (struct wr_forward){.options = options};
    size_t one = options->via.n + sizeof("1.0 ") - 1;
    size_t size = 3 * one + 1;
    forward->via_text = wr_new_bytes(size);
    snprintf(forward->via_text, size, "1.0 %.*s1.1 %.*s2.0 %.*s", WR_STR_ARG(options->via),
             WR_STR_ARG(options->via), WR_STR_ARG(options->via));
    for (size_t i = 0; i < WR_COUNT_OF(forward->via); i++)
        forward->via[i] = wr_str(forward->via_text + i * one, one);
}

void wr_forward_clear(struct wr_forward *forward)
{
    free(forward->via_text);
    forward->via_text = NULL;
}

/* ---- both directions ---- */

static bool is_forwarding_name(struct wr_str name)
{
    return wr_str_starts(name, WR_STR("x-forwarded-"));
}

/* Connection may name fields that are meant for one hop only. Fields weir knows are meant for the whole way (RFC 9110 section
 * 7.6.1 forbids to nominate such ones) or are dropped anyway, so a nomination never removes a credential, a cookie, or what
 * says something about the content or the client: behaviour row 58. */
static bool can_be_nominated(const struct wr_field *field)
{
    return field->id == WR_FIELD_OTHER && !is_forwarding_name(field->name);
}

static void drop_nominated(struct wr_fields *fields, struct wr_str name)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_field *field = &fields->v[i];
        if (can_be_nominated(field) && wr_str_eq_nocase(field->name, name))
            wr_field_drop(field);
    }
}

/* False: too many nominations. */
static bool drop_connection_specific(struct wr_fields *fields)
{
    unsigned nominations = 0;
    for (uint32_t i = 0; i < fields->count; i++) {
        struct wr_field *field = &fields->v[i];
        if (!wr_field_is_hop_by_hop(field->id) || field->name.n == 0)
            continue;
        if (field->id == WR_FIELD_CONNECTION) {
            struct wr_str rest = field->value;
            struct wr_str name;
            while (wr_str_next_element(&rest, &name)) {
                if (++nominations > MAX_NOMINATIONS)
                    return false;
                drop_nominated(fields, name);
            }
        }
        wr_field_drop(field);
    }
    return true;
}

/* RFC 9110 section 7.6.3: the version the message came with, and who passes it on. */
static struct wr_str via_for(const struct wr_forward *forward, const struct wr_head *head)
{
    if (head->http2)
        return forward->via[2];
    return forward->via[head->version_minor == 0 ? 0 : 1];
}

/* ---- requests ---- */

/* Fields that only a trusted peer may say something with. */
static bool needs_trust(const struct wr_field *field)
{
    switch (field->id) {
    case WR_FIELD_FORWARDED:
    case WR_FIELD_X_FORWARDED_FOR:
    case WR_FIELD_X_FORWARDED_PROTO:
    case WR_FIELD_X_FORWARDED_HOST:
    case WR_FIELD_X_REAL_IP:
    case WR_FIELD_X_CLIENT_CERT:
    case WR_FIELD_X_REQUEST_ID:
    case WR_FIELD_EARLY_DATA:
        return true;
    case WR_FIELD_OTHER:
        return is_forwarding_name(field->name);
    default:
        return false;
    }
}

static void drop_untrusted(struct wr_fields *fields)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        if (needs_trust(&fields->v[i]))
            wr_field_drop(&fields->v[i]);
    }
}

/* What the peer gave, of all fields of that name, and the peer itself behind it. */
static struct wr_str forwarded_for(const struct wr_exchange *exchange, struct wr_head *head,
                                   struct wr_arena *arena)
{
    const struct wr_address *address = &exchange->client->address;
    struct wr_str all = WR_STR_EMPTY;
    if (address->storage.ss_family == AF_INET || address->storage.ss_family == AF_INET6)
        all = exchange->client->host_slice;
    for (uint32_t i = head->fields.count; i-- > 0;) {
        struct wr_field *field = &head->fields.v[i];
        if (field->id != WR_FIELD_X_FORWARDED_FOR || field->name.n == 0)
            continue;
        struct wr_str value = wr_str_trim(field->value);
        if (value.n > 0)
            all = all.n == 0
                      ? value
                      : wr_arena_printf(arena, "%.*s, %.*s", WR_STR_ARG(value), WR_STR_ARG(all));
        wr_field_drop(field);
    }
    return all;
}

static void set_unless_given(struct wr_head *head, struct wr_arena *arena, enum wr_field_id id,
                             struct wr_str value)
{
    if (value.n > 0 && wr_fields_find(&head->fields, id) == NULL)
        wr_fields_add_known(&head->fields, arena, id, value);
}

static struct wr_str request_id(struct wr_forward *forward, struct wr_head *head,
                                struct wr_arena *arena)
{
    const struct wr_field *given = wr_fields_find(&head->fields, WR_FIELD_X_REQUEST_ID);
    struct wr_str id = given != NULL && wr_request_id_is_sane(given->value)
                           ? given->value
                           : wr_request_id_new(&forward->ids, arena);
    wr_fields_remove(&head->fields, WR_FIELD_X_REQUEST_ID);
    return id;
}

static bool is_trusted(const struct wr_forward *forward, const struct wr_address *address)
{
    return wr_cidr_list_contains(forward->options->trusted, forward->options->trusted_count,
                                 address);
}

/* Takes the last element off LIST; false: there is none. */
static bool take_last(struct wr_str *list, struct wr_str *element)
{
    while (list->n > 0) {
        const char *comma = memrchr(list->p, ',', list->n);
        size_t from = comma != NULL ? (size_t)(comma - list->p) + 1 : 0;
        *element = wr_str_trim(wr_str(list->p + from, list->n - from));
        list->n = from > 0 ? from - 1 : 0;
        if (element->n > 0)
            return true;
    }
    return false;
}

/* Each hop wrote down whom it was called by: from the last one back, for as long as the hops can be believed. */
void wr_forward_client(const struct wr_forward *forward, const struct wr_exchange *exchange,
                       struct wr_address *out)
{
    const struct wr_fields *fields = &exchange->request.head->fields;
    *out = exchange->client->address;
    if (!is_trusted(forward, out))
        return;
    for (uint32_t i = fields->count; i-- > 0;) {
        const struct wr_field *field = &fields->v[i];
        if (field->id != WR_FIELD_X_FORWARDED_FOR || field->name.n == 0)
            continue;
        struct wr_str list = field->value;
        struct wr_str element;
        struct wr_address hop;
        while (take_last(&list, &element)) {
            if (wr_address_parse_host(element, &hop) != WR_OK)
                return;
            *out = hop;
            if (!is_trusted(forward, out))
                return;
        }
    }
}

enum wr_err wr_forward_request(struct wr_forward *forward, struct wr_exchange *exchange)
{
    struct wr_head *head = exchange->request.head;
    struct wr_arena *arena = &exchange->arena;
    if (!drop_connection_specific(&head->fields))
        return WR_ERR_BAD_REQUEST;
    if (head->tunnel != WR_TUNNEL_NONE) /* each hop has its own (RFC 8441 section 5) */
        wr_fields_remove(&head->fields, WR_FIELD_SEC_WEBSOCKET_KEY);

    if (!is_trusted(forward, &exchange->client->address))
        drop_untrusted(&head->fields);
    exchange->forwarded_for = forwarded_for(exchange, head, arena);
    exchange->request_id = request_id(forward, head, arena);

    wr_fields_add_known(&head->fields, arena, WR_FIELD_VIA, via_for(forward, head));
    set_unless_given(head, arena, WR_FIELD_X_FORWARDED_FOR, exchange->forwarded_for);
    set_unless_given(head, arena, WR_FIELD_X_FORWARDED_PROTO, head->scheme);
    set_unless_given(head, arena, WR_FIELD_X_FORWARDED_HOST, head->authority);
    wr_fields_add_known(&head->fields, arena, WR_FIELD_X_REQUEST_ID, exchange->request_id);
    return WR_OK;
}

/* ---- responses ---- */

enum wr_err wr_forward_response(struct wr_forward *forward, struct wr_exchange *exchange,
                                struct wr_head *head)
{
    if (!drop_connection_specific(&head->fields))
        return WR_ERR_BAD_RESPONSE;
    if (head->tunnel != WR_TUNNEL_NONE)
        wr_fields_remove(&head->fields, WR_FIELD_SEC_WEBSOCKET_ACCEPT);
    wr_fields_add_known(&head->fields, &exchange->arena, WR_FIELD_VIA, via_for(forward, head));
    return WR_OK;
}
