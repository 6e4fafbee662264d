#include "proxy/local.h"

#include <stdlib.h>

#include "base/mem.h"

#define TEXT_PLAIN "text/plain; charset=utf-8"
#define ALLOWED "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"

/* ---- small content, said in one go ---- */

static void ignore_room(void *source, size_t consumed)
{
    (void)source;
    (void)consumed;
}

static void ignore_stop(void *source, enum wr_err why)
{
    (void)source;
    (void)why;
}

static const struct wr_source_ops small_ops = {.room = ignore_room, .stop = ignore_stop};

static struct wr_head *new_head(struct wr_exchange *exchange, uint16_t status)
{
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->status = status;
    head->version_minor = 1;
    return head;
}

static void add(struct wr_exchange *exchange, struct wr_head *head, enum wr_field_id id,
                struct wr_str value)
{
    wr_fields_add_known(&head->fields, &exchange->arena, id, value);
}

/* What is left of the request is not wanted: the server codec reads it off or closes. It hears of that before the head, so
 * that it can say which. */
static void refuse_content(struct wr_exchange *exchange, enum wr_err why)
{
    wr_message_stop(&exchange->request, why);
}

/* Sets the length; true when no content follows, whatever its length. */
static bool set_length(const struct wr_exchange *exchange, struct wr_head *head, uint64_t length)
{
    const struct wr_head *request = exchange->request.head;
    enum wr_method method = request != NULL ? request->method : WR_METHOD_OTHER;
    if (head->status == 204)
        length = 0; /* RFC 9110 section 8.6: no Content-Length there */
    head->content_length = (int64_t)length;
    head->length_given = head->status != 204;
    return length == 0 || wr_response_has_no_content(method, head->status);
}

static void send_small(struct wr_exchange *exchange, struct wr_head *head, struct wr_str content)
{
    bool last = set_length(exchange, head, content.n);
    wr_message_set_source(&exchange->response, &small_ops, NULL);
    wr_message_head(&exchange->response, head, last ? WR_HEAD_LAST : 0);
    if (last)
        return;
    wr_message_put(&exchange->response, content.p, content.n);
    wr_message_end(&exchange->response, NULL);
}

/* ---- errors ---- */

/* S inside the quotes of a quoted string of structured fields, which has only visible ASCII and SP. */
static size_t quote(struct wr_str s, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c < 0x20 || c > 0x7e)
            c = '?';
        if (c == '"' || c == '\\')
            out[n++] = '\\';
        out[n++] = c;
    }
    return n;
}

static bool is_sf_token(struct wr_str s)
{
    if (s.n == 0 || !wr_is_token(s))
        return false;
    char first = wr_lower(s.p[0]);
    return first == '*' || (first >= 'a' && first <= 'z');
}

char *wr_local_name(struct wr_str pseudonym)
{
    char *name = wr_new_bytes(2 * pseudonym.n + 3);
    size_t n = 0;
    if (is_sf_token(pseudonym)) {
        memcpy(name, pseudonym.p, pseudonym.n);
        n = pseudonym.n;
    } else {
        name[n++] = '"';
        n += quote(pseudonym, name + n);
        name[n++] = '"';
    }
    name[n] = '\0';
    return name;
}

static struct wr_str proxy_status(struct wr_exchange *exchange, const struct wr_err_info *info,
                                  const char *name)
{
    return wr_arena_printf(&exchange->arena, "%s; error=%s; details=\"%s\"", name,
                           info->proxy_status, info->text);
}

static const struct wr_field *request_field(const struct wr_exchange *exchange, enum wr_field_id id)
{
    const struct wr_head *request = exchange->request.head;
    return request != NULL ? wr_fields_find(&request->fields, id) : NULL;
}

static bool is_grpc(const struct wr_exchange *exchange)
{
    struct wr_str grpc = WR_STR("application/grpc");
    const struct wr_field *type = request_field(exchange, WR_FIELD_CONTENT_TYPE);
    return type != NULL && type->value.n >= grpc.n &&
           wr_str_eq_nocase(wr_str(type->value.p, grpc.n), grpc);
}

/* The media type of an element of Accept, without its parameters. */
static bool wants_json(const struct wr_exchange *exchange)
{
    const struct wr_field *accept = request_field(exchange, WR_FIELD_ACCEPT);
    if (accept == NULL)
        return false;
    struct wr_str rest = accept->value;
    struct wr_str element;
    while (wr_str_next_element(&rest, &element)) {
        const char *end = memchr(element.p, ';', element.n);
        if (end != NULL)
            element = wr_str_trim(wr_str(element.p, (size_t)(end - element.p)));
        if (wr_str_eq_nocase(element, WR_STR("application/json")))
            return true;
    }
    return false;
}

/* The gRPC project's "HTTP to gRPC Status Code Mapping". */
static struct wr_str grpc_status(uint16_t http_status)
{
    switch (http_status) {
    case 400:
        return WR_STR("13"); /* INTERNAL */
    case 401:
        return WR_STR("16"); /* UNAUTHENTICATED */
    case 403:
        return WR_STR("7"); /* PERMISSION_DENIED */
    case 404:
        return WR_STR("12"); /* UNIMPLEMENTED */
    case 429:
    case 502:
    case 503:
    case 504:
        return WR_STR("14"); /* UNAVAILABLE */
    default:
        return WR_STR("2"); /* UNKNOWN */
    }
}

/* A gRPC answer that consists of trailers only: its head is all there is, and its status is in grpc-status. */
static void send_grpc(struct wr_exchange *exchange, struct wr_head *head,
                      const struct wr_err_info *info)
{
    head->status = 200;
    add(exchange, head, WR_FIELD_CONTENT_TYPE, WR_STR("application/grpc"));
    wr_fields_add(&head->fields, &exchange->arena, WR_STR("grpc-status"),
                  grpc_status(info->http_status));
    wr_fields_add(&head->fields, &exchange->arena, WR_STR("grpc-message"), wr_str_from(info->text));
    send_small(exchange, head, WR_STR_EMPTY);
}

void wr_local_refusal(struct wr_exchange *exchange, enum wr_err why, const char *name,
                      uint32_t retry_after)
{
    const struct wr_err_info *info = wr_err_info(why);
    wr_exchange_blame(exchange, why);
    refuse_content(exchange, why);
    if (info->http_status == 0) {
        wr_message_cancel(&exchange->response, why);
        return;
    }

    struct wr_head *head = new_head(exchange, info->http_status);
    if (info->proxy_status[0] != '\0')
        add(exchange, head, WR_FIELD_PROXY_STATUS, proxy_status(exchange, info, name));
    if (info->http_status == 503 || info->http_status == 429)
        add(exchange, head, WR_FIELD_RETRY_AFTER,
            wr_arena_printf(&exchange->arena, "%u", retry_after));
    if (info->http_status == 408)
        exchange->client_keeps = false; /* RFC 9110 section 15.5.9: the rest is not waited for */
    if (info->http_status == 405)
        add(exchange, head, WR_FIELD_ALLOW, WR_STR(ALLOWED));
    if (is_grpc(exchange)) {
        send_grpc(exchange, head, info);
        return;
    }
    struct wr_str content;
    if (wants_json(exchange)) {
        add(exchange, head, WR_FIELD_CONTENT_TYPE, WR_STR("application/json"));
        content = wr_arena_printf(&exchange->arena,
                                  "{\"status\":%u,\"error\":\"%s\",\"detail\":\"%s\"}\n",
                                  info->http_status, info->label, info->text);
    } else {
        add(exchange, head, WR_FIELD_CONTENT_TYPE, WR_STR(TEXT_PLAIN));
        content = wr_arena_printf(&exchange->arena, "%u %.*s\n%s\n", info->http_status,
                                  WR_STR_ARG(wr_status_reason(info->http_status)), info->text);
    }
    send_small(exchange, head, content);
}

void wr_local_error(struct wr_exchange *exchange, enum wr_err why, const char *name)
{
    wr_local_refusal(exchange, why, name, 1);
}

/* ---- respond routes ---- */

/* Content made while it is taken. Lives in the arena. */
struct filler {
    struct wr_message *message;
    uint64_t put;
    uint64_t left;
    bool pumping; /* room() came from within our own put() */
    bool stopped;
};

/* Lines of text, so that a person who looks at it sees what it is. */
#define FILLER_LINE "weir weir weir weir weir weir weir weir weir weir weir weir wei\n"
#define FILLER_4(x) x x x x
#define FILLER_64(x) FILLER_4(FILLER_4(FILLER_4(x)))
static const char filler_text[] = FILLER_64(FILLER_LINE);

static void pump(struct filler *filler)
{
    if (filler->pumping)
        return;
    filler->pumping = true;
    size_t room;
    while (!filler->stopped && filler->left > 0 && (room = wr_message_room(filler->message)) > 0) {
        /* From where the last piece stopped, so that the content is the same however it was cut. */
        size_t from = (size_t)(filler->put % (sizeof(FILLER_LINE) - 1));
        size_t n = sizeof(filler_text) - 1 - from;
        if (n > room)
            n = room;
        if (n > filler->left)
            n = (size_t)filler->left;
        filler->left -= n;
        filler->put += n;
        wr_message_put(filler->message, filler_text + from, n);
    }
    filler->pumping = false;
    if (!filler->stopped && filler->left == 0) {
        filler->stopped = true;
        wr_message_end(filler->message, NULL);
    }
}

static void filler_room(void *source, size_t consumed WR_UNUSED)
{
    pump(source);
}

static void filler_stop(void *source, enum wr_err why WR_UNUSED)
{
    struct filler *filler = source;
    filler->stopped = true;
}

static const struct wr_source_ops filler_ops = {.room = filler_room, .stop = filler_stop};

static void send_filler(struct wr_exchange *exchange, struct wr_head *head, uint64_t size)
{
    struct filler *filler = wr_arena_alloc(&exchange->arena, sizeof(*filler));
    *filler = (struct filler){.message = &exchange->response, .left = size};
    bool last = set_length(exchange, head, size);
    wr_message_set_source(&exchange->response, &filler_ops, filler);
    wr_message_head(&exchange->response, head, last ? WR_HEAD_LAST : 0);
    if (!last)
        pump(filler);
}

void wr_local_respond(struct wr_exchange *exchange, const struct wr_respond_options *options)
{
    refuse_content(exchange, WR_ERR_CANCELLED);
    struct wr_head *head = new_head(exchange, options->status);
    if (options->content_type.n > 0)
        add(exchange, head, WR_FIELD_CONTENT_TYPE, options->content_type);
    else if (options->body_size > 0 || options->body.n > 0)
        add(exchange, head, WR_FIELD_CONTENT_TYPE, WR_STR(TEXT_PLAIN));
    if (options->body_size > 0)
        send_filler(exchange, head, options->body_size);
    else
        send_small(exchange, head, options->body);
}

void wr_local_options(struct wr_exchange *exchange)
{
    refuse_content(exchange, WR_ERR_CANCELLED);
    struct wr_head *head = new_head(exchange, 204);
    add(exchange, head, WR_FIELD_ALLOW, WR_STR(ALLOWED));
    send_small(exchange, head, WR_STR_EMPTY);
}
