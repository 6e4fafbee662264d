/* Plain listeners: what the first bytes say decides who speaks, however they come. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/compiler.h"
#include "support/downstream_guests.h"

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
/* SETTINGS without entries; HEADERS on stream 1, END_STREAM, END_HEADERS: GET http a / */
#define SETTINGS "\0\0\0\x04\0\0\0\0\0"
#define ASK                                          \
    "\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01" \
    "a"
#define OPENING PREFACE SETTINGS ASK
#define OPENING_N (sizeof(OPENING) - 1)

static struct world *world;
static struct wr_listener_metrics *metrics;
static struct client *client;

static void setup(void)
{
    world = world_new(false);
    metrics = world->env.metrics;
    world->options.plain_http2 = true;
    world->options.codec.h2 = (struct wr_h2_options){.max_concurrent_streams = 10,
                                                     .connection_window = 1 << 20,
                                                     .header_table_size = 4096,
                                                     .ping_interval = WR_NEVER,
                                                     .ping_timeout = WR_NEVER};
    for (size_t i = 0; i < WR_FLOOD__COUNT; i++)
        world->options.codec.h2.budgets[i] = (struct wr_h2_budget){100, 100};
}

static void teardown(void)
{
    world_end(world);
}

TestSuite(sniff, .init = setup, .fini = teardown);

static void come(void)
{
    world_start(world);
    client = world_connect_bare(world);
    world_settle(world);
}

static void send_bytes(const void *p, size_t n)
{
    client_send(client, p, n);
    world_settle(world);
    client_look(client);
}

static bool heard(const char *text)
{
    return memmem(client->text, client->length, text, strlen(text)) != NULL;
}

/* A frame of TYPE at the begin of what came. */
static bool first_frame_is(uint8_t type)
{
    return client->length >= 9 && (uint8_t)client->text[3] == type;
}

static uint64_t gauge(const _Atomic uint64_t *metric)
{
    return wr_metric_get(metric);
}

Test(sniff, a_request_is_http1)
{
    come();
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
    send_bytes(REQUEST, strlen(REQUEST));
    cr_assert(heard("HTTP/1.1 200 OK\r\n"));
    send_bytes(REQUEST, strlen(REQUEST));
    cr_assert_eq(gauge(&metrics->requests[2]), 2);
}

Test(sniff, the_preface_is_http2)
{
    come();
    send_bytes(OPENING, OPENING_N);
    cr_assert(first_frame_is(4), "SETTINGS");
    cr_assert(heard("fine"));
    cr_assert_eq(gauge(&metrics->requests[2]), 1);
    cr_assert(world_logged(world, "\"protocol\":\"HTTP/2\""));
    cr_assert_eq(gauge(&metrics->connections_idle), 1);
}

Test(sniff, byte_by_byte)
{
    come();
    for (size_t i = 0; i < OPENING_N; i++)
        send_bytes(OPENING + i, 1);
    cr_assert(first_frame_is(4));
    cr_assert(heard("fine"));
}

Test(sniff, cut_anywhere)
{
    world_start(world);
    for (size_t cut = 1; cut < OPENING_N; cut++) {
        client = world_connect_bare(world);
        world_settle(world);
        send_bytes(OPENING, cut);
        send_bytes(OPENING + cut, OPENING_N - cut);
        cr_assert(heard("fine"), "cut at %zu", cut);
        client_close(client);
    }
}

/* "*" is a target of OPTIONS only. */
Test(sniff, what_is_no_preface_is_http1_with_all_its_bytes)
{
    static const char *const openings[] = {"PRI * HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                           "PROPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                           "PATCH / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    static const char *const answers[] = {"HTTP/1.1 400 ", "HTTP/1.1 200 ", "HTTP/1.1 200 "};
    world_start(world);
    for (size_t i = 0; i < WR_COUNT_OF(openings); i++) {
        for (size_t cut = 1; cut < strlen(openings[i]); cut++) {
            client = world_connect_bare(world);
            world_settle(world);
            send_bytes(openings[i], cut);
            send_bytes(openings[i] + cut, strlen(openings[i]) - cut);
            cr_assert(heard(answers[i]), "%s cut at %zu: %s", openings[i], cut, client->text);
            client_close(client);
        }
    }
}

Test(sniff, silence_ends_in_silence)
{
    come();
    world_pass(world, 59 * WR_SEC);
    client_look(client);
    cr_assert_not(client->ended);
    world_pass(world, 2 * WR_SEC);
    client_look(client);
    cr_assert(client->ended);
    cr_assert_eq(client->length, 0);
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_KEEP_ALIVE_TIMEOUT), 1);
}

Test(sniff, a_preface_that_does_not_come_to_its_end)
{
    come();
    send_bytes("PRI * HT", 8);
    cr_assert_eq(gauge(&metrics->connections_active), 1);
    world_pass(world, 9 * WR_SEC);
    send_bytes("TP", 2); /* does not help */
    client_look(client);
    cr_assert_not(client->ended);
    world_pass(world, 2 * WR_SEC);
    client_look(client);
    cr_assert(client->ended);
    client_close(client);
    world_settle(world);
    cr_assert_eq(world_ended(world, WR_ERR_REQUEST_HEADER_TIMEOUT), 1);
}

Test(sniff, a_client_that_goes_leaves_nothing)
{
    come();
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    client = world_connect_bare(world);
    world_settle(world);
    send_bytes("PRI *", 5);
    client_close(client);
    world_settle(world);
    cr_assert_eq(wr_downstream_connections(world->downstream), 0);
    cr_assert_eq(world_ended(world, WR_OK), 2);
}

Test(sniff, drain_ends_those_that_have_said_nothing_and_lets_the_others_finish)
{
    come();
    struct client *silent = client;
    client = world_connect_bare(world);
    world_settle(world);
    send_bytes(PREFACE, 10);
    wr_downstream_drain(world->downstream);
    world_settle(world);
    client_look(silent);
    cr_assert(silent->ended);
    client_look(client);
    cr_assert_not(client->ended);
    send_bytes(OPENING + 10, OPENING_N - 10);
    cr_assert(heard("fine"));
    cr_assert(memmem(client->text, client->length, "\0\0\x08\x07", 4) != NULL, "GOAWAY");
}

Test(sniff, a_listener_may_have_it_off)
{
    world->options.plain_http2 = false;
    come();
    send_bytes(OPENING, OPENING_N);
    cr_assert(heard("HTTP/1.1 505 ") || heard("HTTP/1.1 501 ") || heard("HTTP/1.1 400 "));
}
