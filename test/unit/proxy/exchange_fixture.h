/* An exchange with a request head made of text, on a loop of its own. For the tests beside it. */
#ifndef WR_TEST_PROXY_EXCHANGE_FIXTURE_H
#define WR_TEST_PROXY_EXCHANGE_FIXTURE_H

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "http/exchange.h"

static struct wr_loop *loop;
static struct wr_chunk_pool pool;
static struct wr_worker_metrics worker_metrics;
static struct wr_listener_metrics listener_metrics;
static struct wr_exchange_host host;
static struct wr_client_info client;
static struct wr_exchange *exchange;

/* "name: value\n..." to FIELDS. */
static WR_UNUSED void add_fields(struct wr_fields *fields, const char *lines)
{
    while (*lines != '\0') {
        const char *colon = strchr(lines, ':');
        const char *end = strchr(lines, '\n');
        cr_assert(colon != NULL && end != NULL && colon < end);
        struct wr_str name = wr_str(lines, (size_t)(colon - lines));
        wr_fields_add(fields, &exchange->arena, name,
                      wr_str_trim(wr_str(colon + 1, (size_t)(end - colon - 1))));
        lines = end + 1;
    }
}

/* The fields as add_fields() reads them. */
static WR_UNUSED const char *fields_text(const struct wr_fields *fields)
{
    static char text[65536];
    size_t n = 0;
    text[0] = '\0';
    uint32_t at = 0;
    const struct wr_field *field;
    while ((field = wr_fields_next(fields, &at)) != NULL)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s: %.*s\n", WR_STR_ARG(field->name),
                              WR_STR_ARG(field->value));
    return text;
}

static void no_room(void *source, size_t n)
{
    (void)source;
    (void)n;
}

static void no_stop(void *source, enum wr_err why)
{
    (void)source;
    (void)why;
}

static const struct wr_source_ops request_source = {.room = no_room, .stop = no_stop};

/* A request without content from PEER. */
static WR_UNUSED void open_exchange(const char *peer, enum wr_method method, const char *lines)
{
    cr_assert_eq(wr_loop_new(WR_CLOCK_SIMULATED, &loop), WR_OK);
    wr_chunk_pool_init(&pool, 0);
    wr_exchange_host_init(&host);
    host.loop = loop;
    host.chunks = &pool;
    host.worker_metrics = &worker_metrics;
    host.metrics = &listener_metrics;
    host.content_limit = 65536;
    cr_assert_eq(wr_address_parse(wr_str_from(peer), &client.address), WR_OK);
    char text[WR_ADDRESS_TEXT];
    struct wr_str shown = wr_address_text(&client.address, true, text);
    cr_assert_lt(shown.n, sizeof(client.address_text));
    memcpy(client.address_text, shown.p, shown.n);
    client.host_slice = wr_str(client.address_text, shown.n);
    client.tls_version = "";

    exchange = wr_exchange_open(&host, &client);
    struct wr_head *head = wr_arena_alloc(&exchange->arena, sizeof(*head));
    wr_head_init(head);
    head->method = method;
    head->scheme = WR_STR("https");
    head->authority = WR_STR("www.example.com");
    head->path = WR_STR("/");
    head->version_minor = 1;
    add_fields(&head->fields, lines);
    wr_message_set_source(&exchange->request, &request_source, NULL);
    wr_message_head(&exchange->request, head, WR_HEAD_LAST);
}

static WR_UNUSED void close_exchange(void)
{
    wr_exchange_finish(exchange, WR_OK);
    wr_loop_turn(loop, 0);
    wr_exchange_host_clear(&host);
    wr_loop_free(loop);
    wr_chunk_pool_free(&pool);
}

#endif
