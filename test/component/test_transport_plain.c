/* Plain transports over real sockets: order, bounds, pauses, endings, and owners that close wherever they are called. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "support/transport_lab.h"
#include "transport/transport_internal.h"

#define BULK ((size_t)8 * 1024 * 1024)

static struct lab lab;
static struct lab_end server;
static struct lab_end client;

static void set_up(void)
{
    lab_open(&lab);
    server = (struct lab_end){0};
    client = (struct lab_end){0};
}

static void tear_down(void)
{
    lab_end_free(&server);
    lab_end_free(&client);
    lab_close(&lab);
}

TestSuite(transport_plain, .init = set_up, .fini = tear_down, .timeout = 60);

Test(transport_plain, a_small_exchange_leaves_no_buffers_behind)
{
    server.echo = true;
    lab_establish(&lab, &server, &client, NULL, NULL);
    cr_assert_eq(wr_transport_state(server.transport), WR_TRANSPORT_OPEN);
    LAB_CALL(&lab, wr_transport_write(client.transport, "he", 2));
    LAB_CALL(&lab, wr_transport_write(client.transport, "llo", 3));
    LAB_WAIT(&lab, client.got_length == 5);
    cr_assert_arr_eq(client.got, "hello", 5);
    cr_assert_eq(server.readable_calls, 1, "gathered into one send");
    cr_assert_eq(wr_transport_bytes_sent(client.transport), 5);
    cr_assert_eq(wr_transport_bytes_received(client.transport), 5);
    cr_assert_eq(wr_transport_output(client.transport), 0);
    cr_assert_null(client.transport->pipeline);
    cr_assert_null(server.transport->pipeline);
    cr_assert(wr_transport_is_quiet(client.transport));
    struct wr_tls_info info;
    cr_assert_not(wr_transport_tls_info(client.transport, &info));
}

Test(transport_plain, bulk_is_bounded_and_whole)
{
    uint8_t *pattern = lab_pattern(BULK);
    size_t written = 0;
    size_t most = 0;
    lab_establish(&lab, &server, &client, NULL, NULL);
    while (written < BULK) {
        size_t room = wr_transport_output_room(client.transport);
        size_t n = room < BULK - written ? room : BULK - written;
        unsigned before = client.writables;
        wr_transport_write(client.transport, pattern + written, n);
        written += n;
        if (wr_transport_output(client.transport) > most)
            most = wr_transport_output(client.transport);
        if (written < BULK && wr_transport_output_room(client.transport) == 0)
            LAB_WAIT(&lab, client.writables > before);
    }
    LAB_WAIT(&lab, server.got_length == BULK);
    cr_assert(memcmp(server.got, pattern, BULK) == 0);
    cr_assert_leq(most, 128 * 1024);
    cr_assert_null(client.transport->pipeline);
    free(pattern);
}

Test(transport_plain, chunks_are_moved_into_the_output)
{
    uint8_t *pattern = lab_pattern(100000);
    struct wr_bytes bytes;
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_bytes_init(&bytes, wr_transport_host_chunks(lab.host));
    wr_bytes_append(&bytes, pattern, 100000);
    LAB_CALL(&lab, cr_assert_eq(wr_transport_write_bytes(client.transport, &bytes, 70000), 70000));
    cr_assert_eq(bytes.length, 30000);
    LAB_CALL(&lab, cr_assert_eq(wr_transport_write_bytes(client.transport, &bytes, 70000), 30000));
    LAB_WAIT(&lab, server.got_length == 100000);
    cr_assert(memcmp(server.got, pattern, 100000) == 0);
    free(pattern);
}

Test(transport_plain, what_is_not_taken_is_offered_again_in_order)
{
    uint8_t *pattern = lab_pattern(200000);
    server.take = 7001;
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_write(client.transport, pattern, 200000);
    wr_transport_end(client.transport);
    while (server.got_length < 200000) {
        unsigned before = server.readable_calls;
        LAB_WAIT(&lab, server.readable_calls > before || server.got_length == 200000);
        cr_assert_eq(server.readable_calls, before + 1, "called while paused");
        cr_assert_eq(server.read_ends, 0, "the end came before the last bytes");
        LAB_CALL(&lab, wr_transport_resume(server.transport, WR_PAUSE_FULL));
    }
    cr_assert(memcmp(server.got, pattern, 200000) == 0);
    LAB_WAIT(&lab, server.read_ends == 1);
    cr_assert(server.clean);
    free(pattern);
}

Test(transport_plain, each_reason_to_pause_holds_alone)
{
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_pause(server.transport, WR_PAUSE_BUSY);
    wr_transport_pause(server.transport, WR_PAUSE_OWNER);
    wr_transport_write(client.transport, "x", 1);
    wr_transport_end(client.transport);
    lab_settle(&lab);
    cr_assert_eq(server.readable_calls, 0);
    cr_assert_not(wr_transport_is_quiet(server.transport), "an edge in a pause is remembered");
    LAB_CALL(&lab, wr_transport_resume(server.transport, WR_PAUSE_BUSY));
    lab_settle(&lab);
    cr_assert_eq(server.readable_calls, 0);
    cr_assert_eq(server.read_ends, 0);
    LAB_CALL(&lab, wr_transport_resume(server.transport, WR_PAUSE_OWNER));
    LAB_WAIT(&lab, server.readable_calls == 1 && server.read_ends == 1);
}

Test(transport_plain, each_direction_ends_alone)
{
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_write(client.transport, "request", 7);
    LAB_CALL(&lab, wr_transport_end(client.transport));
    LAB_CALL(&lab, wr_transport_end(client.transport));
    cr_assert_eq(wr_transport_state(client.transport), WR_TRANSPORT_ENDED);
    LAB_WAIT(&lab, server.read_ends == 1 && client.flushes == 1);
    cr_assert(server.clean);
    cr_assert_eq(server.got_length, 7);
    wr_transport_write(server.transport, "response", 8);
    wr_transport_end(server.transport);
    LAB_WAIT(&lab, client.read_ends == 1 && server.flushes == 1);
    cr_assert_eq(client.got_length, 8);
    cr_assert_eq(client.closes + server.closes, 0);
}

Test(transport_plain, a_reset_is_told_as_such)
{
    lab_establish(&lab, &server, &client, NULL, NULL);
    LAB_CALL(&lab, wr_transport_reset(client.transport));
    client.transport = NULL;
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_RESET);
    cr_assert_eq(wr_transport_state(server.transport), WR_TRANSPORT_FAILED);
}

Test(transport_plain, a_reset_is_told_to_a_paused_server)
{
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_pause(server.transport, WR_PAUSE_BUSY);
    wr_transport_write(client.transport, "next request", 12);
    lab_settle(&lab);
    wr_transport_reset(client.transport);
    client.transport = NULL;
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_RESET);
    cr_assert_eq(server.readable_calls, 0);
}

Test(transport_plain, bytes_before_a_reset_are_handed_up)
{
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_write(server.transport, "last words", 10);
    wr_transport_flush(server.transport);
    wr_transport_reset(server.transport);
    server.transport = NULL;
    LAB_WAIT(&lab, client.closes == 1);
    cr_assert_eq(client.got_length, 10);
    cr_assert_eq(client.why, WR_ERR_UPSTREAM_RESET);
}

/* An upstream that answers early and closes: our write fails, its answer counts. */
Test(transport_plain, an_early_answer_survives_a_failed_write)
{
    int ours;
    int theirs;
    uint8_t *pattern = lab_pattern(BULK);
    lab_tcp_pair(&ours, &theirs);
    client.take = 5;
    lab_adopt(&lab, &client, ours, NULL);
    LAB_WAIT(&lab, client.established == 1);
    wr_transport_pause(client.transport, WR_PAUSE_FULL);
    wr_transport_write(client.transport, pattern, BULK);
    lab_settle(&lab);
    cr_assert_eq(send(theirs, "413 too large", 13, 0), 13);
    close(theirs); /* with unread bytes: RST */
    lab_settle(&lab);
    cr_assert_eq(client.closes, 0, "the answer has not been taken");
    cr_assert_eq(wr_transport_output(client.transport), 0);
    for (int i = 0; i < 3; i++) {
        unsigned before = client.readable_calls;
        wr_transport_resume(client.transport, WR_PAUSE_FULL);
        LAB_WAIT(&lab, client.readable_calls > before);
    }
    cr_assert_eq(client.got_length, 13);
    cr_assert_arr_eq(client.got, "413 too large", 13);
    wr_transport_resume(client.transport, WR_PAUSE_FULL);
    LAB_WAIT(&lab, client.closes == 1);
    free(pattern);
}

Test(transport_plain, a_server_whose_answer_cannot_be_sent_is_closed)
{
    int ours;
    int theirs;
    uint8_t *pattern = lab_pattern(BULK);
    lab_tcp_pair(&ours, &theirs);
    lab_accept(&lab, &server, ours, NULL);
    wr_transport_write(server.transport, pattern, BULK);
    lab_settle(&lab);
    cr_assert_gt(wr_transport_output(server.transport), 0);
    close(theirs);
    LAB_WAIT(&lab, server.closes == 1);
    cr_assert_eq(server.why, WR_ERR_CLIENT_RESET);
    wr_transport_write(server.transport, "ignored", 7);
    wr_transport_end(server.transport);
    wr_transport_flush(server.transport);
    lab_settle(&lab);
    cr_assert_eq(server.closes, 1);
    free(pattern);
}

Test(transport_plain, discarded_input_still_ends)
{
    uint8_t *pattern = lab_pattern(1000000);
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_pause(server.transport, WR_PAUSE_FULL);
    wr_transport_write(client.transport, pattern, 1000000);
    wr_transport_end(client.transport);
    lab_settle(&lab);
    LAB_CALL(&lab, wr_transport_discard_input(server.transport));
    LAB_WAIT(&lab, server.read_ends == 1 && client.flushes == 1);
    cr_assert_eq(server.got_length, 0);
    free(pattern);
}

Test(transport_plain, kept_input_is_discarded_too)
{
    server.take = 1;
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_write(client.transport, "abc", 3);
    LAB_WAIT(&lab, server.got_length == 1);
    LAB_CALL(&lab, wr_transport_discard_input(server.transport));
    wr_transport_resume(server.transport, WR_PAUSE_FULL);
    lab_settle(&lab);
    cr_assert_eq(server.got_length, 1);
    cr_assert_null(server.transport->pipeline);
}

Test(transport_plain, nobody_listens)
{
    struct wr_address address;
    int listening;
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:0"), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &(struct wr_listen_options){0}, &listening), WR_OK);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&name, &size), 0);
    close(listening);
    memcpy(&address.storage, &name, size);
    client.lab = &lab;
    enum wr_err err =
        wr_transport_connect(lab.host, &address, NULL, (struct wr_transport_counters){NULL, NULL},
                             &lab_events, &client, &client.transport);
    if (err == WR_OK) {
        cr_assert_eq(wr_transport_state(client.transport), WR_TRANSPORT_CONNECTING);
        LAB_WAIT(&lab, client.closes == 1);
        err = client.why;
    }
    cr_assert_eq(err, WR_ERR_CONNECT_REFUSED);
}

Test(transport_plain, output_before_the_connection_is_kept)
{
    struct wr_address address;
    int listening;
    socklen_t size = sizeof address.storage;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:0"), &address), WR_OK);
    cr_assert_eq(wr_socket_listen(&address, &(struct wr_listen_options){0}, &listening), WR_OK);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address.storage, &size), 0);
    client.lab = &lab;
    LAB_CALL(&lab, cr_assert_eq(wr_transport_connect(lab.host, &address, NULL,
                                                     (struct wr_transport_counters){NULL, NULL},
                                                     &lab_events, &client, &client.transport),
                                WR_OK));
    wr_transport_write(client.transport, "early", 5);
    wr_transport_end(client.transport);
    LAB_WAIT(&lab, client.flushes == 1);
    cr_assert_eq(client.established, 1);
    char got[16];
    int fd = accept(listening, NULL, NULL);
    cr_assert_eq(recv(fd, got, sizeof got, MSG_WAITALL), 5);
    close(fd);
    close(listening);
}

Test(transport_plain, bytes_on_the_wire_are_counted)
{
    _Atomic uint64_t received = 0;
    _Atomic uint64_t sent = 0;
    int a;
    int b;
    lab_unix_pair(&a, &b);
    server.lab = &lab;
    server.echo = true;
    cr_assert_eq(wr_transport_accept(lab.host, a, NULL,
                                     (struct wr_transport_counters){&received, &sent}, &lab_events,
                                     &server, &server.transport),
                 WR_OK);
    cr_assert_eq(send(b, "12345", 5, 0), 5);
    LAB_WAIT(&lab, sent == 5);
    cr_assert_eq(received, 5);
    close(b);
}

/* When very many write in one turn, the first are sent before its end. */
Test(transport_plain, a_crowd_does_not_gather_without_bound)
{
    enum { CROWD = 100 };
    static struct lab_end ends[CROWD];
    static int peers[CROWD];
    char got[8];
    for (size_t i = 0; i < CROWD; i++) {
        int fd;
        lab_unix_pair(&fd, &peers[i]);
        lab_accept(&lab, &ends[i], fd, NULL);
    }
    for (size_t i = 0; i < CROWD; i++)
        LAB_CALL(&lab, wr_transport_write(ends[i].transport, "hello", 5));
    cr_assert_leq(lab.host->gathering_count, 64);
    cr_assert_eq(recv(peers[0], got, sizeof got, 0), 5);
    cr_assert_lt(recv(peers[CROWD - 1], got, sizeof got, 0), 0);
    wr_loop_turn(lab.loop, 0);
    cr_assert_eq(recv(peers[CROWD - 1], got, sizeof got, 0), 5);
    cr_assert_eq(lab.host->gathering_count, 0);
    cr_assert_eq(wr_transport_host_chunks(lab.host)->used_count, 0);
    for (size_t i = 0; i < CROWD; i++) {
        lab_end_free(&ends[i]);
        close(peers[i]);
    }
}

/* Every callback may close, and the other end is none the worse. */
static void close_in(enum lab_close_in where, unsigned (*count)(void))
{
    uint8_t *pattern = lab_pattern(BULK);
    server.close_in = where;
    lab_establish(&lab, &server, &client, NULL, NULL);
    wr_transport_write(client.transport, "hello", 5);
    if (where == LAB_CLOSE_WRITABLE) {
        wr_transport_write(server.transport, pattern, BULK);
    } else if (where == LAB_CLOSE_FLUSHED) {
        wr_transport_end(server.transport);
    } else {
        wr_transport_end(client.transport);
    }
    LAB_WAIT(&lab, count() == 1);
    lab_settle(&lab);
    cr_assert_null(server.transport);
    free(pattern);
}

static unsigned readable_count(void)
{
    return server.readable_calls;
}

static unsigned read_end_count(void)
{
    return server.read_ends;
}

static unsigned writable_count(void)
{
    return server.writables;
}

static unsigned flushed_count(void)
{
    return server.flushes;
}

Test(transport_plain, closing_in_readable)
{
    close_in(LAB_CLOSE_READABLE, readable_count);
}

Test(transport_plain, closing_in_read_end)
{
    close_in(LAB_CLOSE_READ_END, read_end_count);
}

Test(transport_plain, closing_in_writable)
{
    close_in(LAB_CLOSE_WRITABLE, writable_count);
}

Test(transport_plain, closing_in_flushed)
{
    close_in(LAB_CLOSE_FLUSHED, flushed_count);
}

Test(transport_plain, closing_in_established_and_closed)
{
    int a;
    int b;
    client.close_in = LAB_CLOSE_ESTABLISHED;
    lab_tcp_pair(&a, &b);
    lab_adopt(&lab, &client, a, NULL);
    LAB_WAIT(&lab, client.established == 1);
    cr_assert_null(client.transport);
    server.close_in = LAB_CLOSE_CLOSED;
    lab_accept(&lab, &server, b, NULL);
    wr_transport_write(server.transport, "x", 1); /* answered by a reset */
    lab_settle(&lab);
    LAB_WAIT(&lab, server.read_ends == 1 || server.closes == 1);
    if (server.closes == 0) {
        wr_transport_write(server.transport, "x", 1);
        LAB_WAIT(&lab, server.closes == 1);
    }
    cr_assert_null(server.transport);
}
