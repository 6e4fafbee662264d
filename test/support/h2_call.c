/* The exchanges of an HTTP/2 rig. */
#include <criterion/criterion.h>
#include <string.h>

#include "support/h2_rig.h"

/* "name: value\n..." */
static void add_fields(struct wr_arena *arena, struct wr_fields *fields, const char *text)
{
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        const char *colon = strchr(text, ':');
        cr_assert(end != NULL && colon != NULL && colon < end);
        struct wr_str name = wr_str(text, (size_t)(colon - text));
        struct wr_str value = wr_str_trim(wr_str(colon + 1, (size_t)(end - colon - 1)));
        wr_fields_add(fields, arena, wr_arena_copy(arena, name), wr_arena_copy(arena, value));
        text = end + 1;
    }
}

void h2_rig_answer_head(struct h2_call *call, unsigned status, int64_t length, const char *fields,
                        unsigned flags)
{
    struct wr_exchange *exchange = call->exchange;
    const struct wr_head *request = exchange->request.head;
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->status = (uint16_t)status;
    head->content_length = length;
    head->length_given = length > 0;
    if (request->tunnel != WR_TUNNEL_NONE && status == 200) {
        head->tunnel = request->tunnel;
        head->protocol = request->protocol;
    }
    add_fields(&exchange->arena, &head->fields, fields);
    if (exchange->response.source_ops == NULL)
        wr_message_set_source(&exchange->response, &feeder_ops, &call->feeder);
    wr_message_head(&exchange->response, head, flags);
}

void h2_rig_answer(struct h2_call *call, unsigned status, const char *body)
{
    struct wr_exchange *exchange = call->exchange;
    size_t n = strlen(body);
    h2_rig_answer_head(call, status, (int64_t)n, "", n == 0 ? WR_HEAD_LAST : 0);
    if (n == 0)
        return;
    wr_message_put(&exchange->response, body, n);
    wr_message_end(&exchange->response, NULL);
}

static struct h2_call *open_call(struct h2_rig *rig, struct wr_exchange *exchange,
                                 struct wr_head *head, unsigned flags)
{
    struct h2_call *call = h2_rig_new_call(rig, exchange);
    if (flags == 0)
        wr_message_set_source(&exchange->request, &feeder_ops, &call->feeder);
    wr_message_head(&exchange->request, head, flags);
    h2_rig_collect(call);
    rig->client->ops->open(rig->client, exchange);
    return call;
}

static struct wr_head *new_request(struct wr_exchange *exchange, const char *method)
{
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method_text = wr_str_from(method);
    head->method = wr_method_lookup(head->method_text);
    head->scheme = WR_STR("http");
    head->authority = WR_STR("origin.test");
    head->path = WR_STR("/path?q");
    head->version_minor = 1;
    return head;
}

struct h2_call *h2_rig_open(struct h2_rig *rig, const char *method, int64_t length,
                            const char *fields)
{
    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &rig->client_info);
    struct wr_head *head = new_request(exchange, method);
    head->content_length = length;
    add_fields(&exchange->arena, &head->fields, fields);
    if (rig->sensitive != NULL)
        wr_fields_find_name(&head->fields, wr_str_from(rig->sensitive))->sensitive = true;
    return open_call(rig, exchange, head, length == 0 ? WR_HEAD_LAST : 0);
}

struct h2_call *h2_rig_open_tunnel(struct h2_rig *rig, enum wr_tunnel tunnel)
{
    struct wr_exchange *exchange = wr_exchange_open(&rig->host, &rig->client_info);
    struct wr_head *head = new_request(exchange, tunnel == WR_TUNNEL_CONNECT ? "CONNECT" : "GET");
    head->tunnel = tunnel;
    head->content_length = WR_LENGTH_UNKNOWN;
    if (tunnel == WR_TUNNEL_CONNECT)
        head->path = WR_STR_EMPTY;
    else
        head->protocol = WR_STR("websocket");
    return open_call(rig, exchange, head, 0);
}

void h2_rig_finish(struct h2_call *call, enum wr_err why)
{
    if (call->exchange != NULL)
        wr_exchange_finish(call->exchange, why);
}
