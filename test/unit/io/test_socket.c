/* Addresses, blocks of addresses, listening and connecting. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/socket.h"

static struct wr_address parsed(const char *text)
{
    struct wr_address address;
    cr_assert_eq(wr_address_parse(wr_str_from(text), &address), WR_OK, "%s", text);
    return address;
}

static void expect_text(const char *text, const char *full, const char *host)
{
    struct wr_address address = parsed(text);
    char out[WR_ADDRESS_TEXT];
    struct wr_str s = wr_address_text(&address, false, out);
    cr_assert(wr_str_eq(s, wr_str_from(full)), "%s: %.*s", text, WR_STR_ARG(s));
    s = wr_address_text(&address, true, out);
    cr_assert(wr_str_eq(s, wr_str_from(host)), "%s: %.*s", text, WR_STR_ARG(s));
}

Test(address, text_and_back)
{
    expect_text("127.0.0.1:80", "127.0.0.1:80", "127.0.0.1");
    expect_text("0.0.0.0:0", "0.0.0.0:0", "0.0.0.0");
    expect_text("[::1]:65535", "[::1]:65535", "::1");
    expect_text("[2001:DB8:0:0::5]:443", "[2001:db8::5]:443", "2001:db8::5");
    expect_text("unix:/run/x.sock", "unix:/run/x.sock", "unix:");
    struct wr_address v6 = parsed("[::1]:443");
    cr_assert_eq(wr_address_port(&v6), 443);
    struct wr_address path = parsed("unix:a");
    cr_assert_eq(wr_address_port(&path), 0);
}

Test(address, longest_unix_path)
{
    char text[5 + 108 + 1] = "unix:";
    memset(text + 5, 'p', 108);
    struct wr_address address;
    cr_assert_eq(wr_address_parse(wr_str(text, 5 + 108), &address), WR_ERR_INVALID);
    cr_assert_eq(wr_address_parse(wr_str(text, 5 + 107), &address), WR_OK);
    char out[WR_ADDRESS_TEXT];
    cr_assert(wr_str_eq(wr_address_text(&address, false, out), wr_str(text, 5 + 107)));
}

Test(address, what_is_not_one)
{
    static const char *const bad[] = {"",
                                      ":",
                                      ":80",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "1.2.3:80",
                                      "localhost:80",
                                      "::1:80",
                                      "[::1]",
                                      "[::1]80",
                                      "[1.2.3.4]:80",
                                      "[]:80",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:000080",
                                      "127.0.0.1: 80",
                                      "[::1:80",
                                      "::1]:80",
                                      "unix:",
                                      "127.0.0.1:80 ",
                                      "[fe80::1%lo]:80",
                                      "127.0.0.1:1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wr_address address;
        cr_expect_eq(wr_address_parse(wr_str_from(bad[i]), &address), WR_ERR_INVALID, "'%s'",
                     bad[i]);
    }
    struct wr_address address;
    cr_assert_eq(wr_address_parse(wr_str("127.0.0.1\0:80", 13), &address), WR_ERR_INVALID);
    cr_assert_eq(wr_address_parse(wr_str("unix:/a\0b", 9), &address), WR_ERR_INVALID);
}

Test(address, loopback)
{
    static const struct {
        const char *text;
        bool loopback;
    } rows[] = {{"127.0.0.1:1", true},
                {"127.255.0.9:1", true},
                {"128.0.0.1:1", false},
                {"[::1]:1", true},
                {"[::2]:1", false},
                {"0.0.0.0:1", false},
                {"[::ffff:127.0.0.1]:1", true},
                {"[::]:1", false},
                {"unix:/x", true},
                {"[::ffff:10.0.0.1]:1", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wr_address address = parsed(rows[i].text);
        cr_expect_eq(wr_address_is_loopback(&address), rows[i].loopback, "%s", rows[i].text);
    }
}

Test(address, resolve)
{
    struct wr_address found[4];
    size_t count;
    cr_assert_eq(wr_address_resolve("127.0.0.7", 81, found, 4, &count), WR_OK);
    cr_assert_eq(count, 1);
    char out[WR_ADDRESS_TEXT];
    cr_assert(wr_str_eq(wr_address_text(&found[0], false, out), WR_STR("127.0.0.7:81")));
    cr_assert_eq(wr_address_resolve("localhost", 81, found, 1, &count), WR_OK);
    cr_assert_eq(count, 1);
    cr_assert(wr_address_is_loopback(&found[0]));
    cr_assert_eq(wr_address_resolve("no host", 81, found, 4, &count), WR_ERR_RESOLVE_FAILED);
    cr_assert_eq(count, 0);
}

Test(cidr, contains)
{
    static const struct {
        const char *block;
        const char *address;
        bool in;
    } rows[] = {
        {"10.0.0.0/8", "10.255.1.2:1", true},
        {"10.0.0.0/8", "11.0.0.0:1", false},
        {"10.1.2.3/8", "10.9.9.9:1", true},
        {"192.0.2.1", "192.0.2.1:1", true},
        {"192.0.2.1", "192.0.2.0:1", false},
        {"192.0.2.128/25", "192.0.2.127:1", false},
        {"192.0.2.128/25", "192.0.2.128:1", true},
        {"0.0.0.0/0", "255.1.1.1:1", true},
        {"0.0.0.0/0", "[::1]:1", false},
        {"::/0", "[2001:db8::1]:1", true},
        {"::/0", "1.2.3.4:1", false},
        {"::/0", "[::ffff:1.2.3.4]:1", false},
        {"::1/128", "[::1]:1", true},
        {"::1", "[::2]:1", false},
        {"2001:db8::/33", "[2001:db8:7fff::1]:1", true},
        {"2001:db8::/33", "[2001:db8:8000::1]:1", false},
        {"10.0.0.0/8", "[::ffff:10.2.3.4]:1", true},
        {"10.0.0.0/8", "[::10.2.3.4]:1", false},
        {"::ffff:10.0.0.0/104", "10.2.3.4:1", true},
        {"::ffff:10.0.0.0/104", "[::ffff:10.2.3.4]:1", true},
        {"::ffff:10.0.0.0/104", "11.2.3.4:1", false},
        {"127.0.0.0/8", "unix:/x", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wr_cidr cidr;
        cr_assert_eq(wr_cidr_parse(wr_str_from(rows[i].block), &cidr), WR_OK);
        struct wr_address address = parsed(rows[i].address);
        cr_expect_eq(wr_cidr_contains(&cidr, &address), rows[i].in, "%s in %s", rows[i].address,
                     rows[i].block);
    }
}

Test(cidr, list)
{
    struct wr_cidr list[2];
    cr_assert_eq(wr_cidr_parse(WR_STR("10.0.0.0/8"), &list[0]), WR_OK);
    cr_assert_eq(wr_cidr_parse(WR_STR("::1"), &list[1]), WR_OK);
    struct wr_address in = parsed("[::1]:1");
    struct wr_address out = parsed("1.1.1.1:1");
    cr_assert(wr_cidr_list_contains(list, 2, &in));
    cr_assert_not(wr_cidr_list_contains(list, 1, &in));
    cr_assert_not(wr_cidr_list_contains(list, 2, &out));
    cr_assert_not(wr_cidr_list_contains(NULL, 0, &in));
}

Test(cidr, what_is_not_one)
{
    static const char *const bad[] = {"",          "/8",          "10.0.0.0/",     "10.0.0.0/33",
                                      "10.0.0/8",  "::/129",      "10.0.0.0/8/8",  "10.0.0.0/-1",
                                      "localhost", "10.0.0.0/ 8", "10.0.0.0/0008", "unix:/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wr_cidr cidr;
        cr_expect_eq(wr_cidr_parse(wr_str_from(bad[i]), &cidr), WR_ERR_INVALID, "'%s'", bad[i]);
    }
}

/* ---- sockets ---- */

static int listen_at(const char *text, bool reuse_port, struct wr_address *bound)
{
    struct wr_address address = parsed(text);
    struct wr_listen_options options = {.reuse_port = reuse_port};
    int fd;
    cr_assert_eq(wr_socket_listen(&address, &options, &fd), WR_OK);
    bound->length = sizeof bound->storage;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&bound->storage, &bound->length), 0);
    return fd;
}

static void wait_for(int fd, short what)
{
    struct pollfd p = {.fd = fd, .events = what};
    cr_assert_eq(poll(&p, 1, 5000), 1);
}

/* A connected pair: the client end, and in *SERVER the accepted one. */
static int connect_pair(int listening, const struct wr_address *bound, int *server)
{
    int client;
    cr_assert_eq(wr_socket_connect(bound, &client), WR_OK);
    wait_for(listening, POLLIN);
    *server = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    cr_assert_geq(*server, 0);
    wait_for(client, POLLOUT);
    cr_assert_eq(wr_socket_connect_result(client), WR_OK);
    return client;
}

static void expect_flags(int fd)
{
    cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

Test(socket, listen_and_connect)
{
    struct wr_address bound;
    int listening = listen_at("127.0.0.1:0", false, &bound);
    int server;
    int client = connect_pair(listening, &bound, &server);
    expect_flags(listening);
    expect_flags(client);
    int on = 0;
    socklen_t size = sizeof on;
    getsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, &size);
    cr_assert_neq(on, 0);
    close(client);
    close(server);
    close(listening);
}

Test(socket, reuse_port_is_asked_for)
{
    struct wr_address bound;
    int first = listen_at("127.0.0.1:0", true, &bound);
    struct wr_listen_options shared = {.reuse_port = true};
    struct wr_listen_options alone = {.reuse_port = false};
    int second, third;
    cr_assert_eq(wr_socket_listen(&bound, &shared, &second), WR_OK);
    cr_assert_eq(wr_socket_listen(&bound, &alone, &third), WR_ERR_SYSTEM);
    cr_assert_eq(errno, EADDRINUSE);
    cr_assert_eq(third, -1);
    close(second);
    close(first);
}

Test(socket, refused_connection)
{
    struct wr_address bound;
    close(listen_at("127.0.0.1:0", false, &bound));
    int fd;
    enum wr_err err = wr_socket_connect(&bound, &fd);
    if (err == WR_OK) {
        wait_for(fd, POLLOUT);
        err = wr_socket_connect_result(fd);
        close(fd);
    }
    cr_assert_eq(err, WR_ERR_CONNECT_REFUSED);
    struct wr_address none = parsed("unix:/nonexistent/x.sock");
    cr_assert_eq(wr_socket_connect(&none, &fd), WR_ERR_CONNECT_REFUSED);
    cr_assert_eq(fd, -1);
}

Test(socket, quiet_and_gone)
{
    struct wr_address bound;
    int listening = listen_at("127.0.0.1:0", false, &bound);
    int server;
    int client = connect_pair(listening, &bound, &server);
    cr_assert(wr_socket_is_quiet(client));
    cr_assert_not(wr_socket_peer_gone(client));
    cr_assert_eq(write(server, "x", 1), 1);
    wait_for(client, POLLIN);
    cr_assert_not(wr_socket_is_quiet(client));
    cr_assert_not(wr_socket_peer_gone(client));
    shutdown(server, SHUT_WR);
    wait_for(client, POLLRDHUP);
    cr_assert(wr_socket_peer_gone(client), "unread bytes before the FIN must not hide it");
    char byte;
    cr_assert_eq(read(client, &byte, 1), 1);
    cr_assert_not(wr_socket_is_quiet(client), "FIN");
    close(client);
    close(server);

    client = connect_pair(listening, &bound, &server);
    wr_socket_reset(server);
    wait_for(client, POLLIN);
    cr_assert(wr_socket_peer_gone(client));
    cr_assert_not(wr_socket_is_quiet(client));
    close(client);
    close(listening);
}

Test(socket, accept_queue)
{
    struct wr_address address = parsed("127.0.0.1:0");
    struct wr_listen_options options = {.backlog = 7};
    int listening;
    cr_assert_eq(wr_socket_listen(&address, &options, &listening), WR_OK);
    address.length = sizeof address.storage;
    getsockname(listening, (struct sockaddr *)&address.storage, &address.length);
    unsigned length, limit;
    wr_socket_accept_queue(listening, &length, &limit);
    cr_assert_eq(length, 0);
    cr_assert_eq(limit, 7);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(wr_socket_connect(&address, &clients[i]), WR_OK);
        wait_for(clients[i], POLLOUT);
    }
    wait_for(listening, POLLIN);
    wr_socket_accept_queue(listening, &length, &limit);
    cr_assert_eq(length, 3);
    for (int i = 0; i < 3; i++)
        close(clients[i]);
    close(listening);
}

Test(socket, unix_sockets)
{
    char folder[] = "/tmp/wr-io-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    char text[64];
    snprintf(text, sizeof text, "unix:%s/s", folder);
    const char *path = text + 5;
    struct wr_address bound;
    struct wr_address address = parsed(text);
    struct wr_listen_options options = {.backlog = 0};
    int listening = listen_at(text, true, &bound);
    int server;
    int client = connect_pair(listening, &address, &server);
    unsigned length = 9, limit = 9;
    wr_socket_accept_queue(listening, &length, &limit);
    cr_assert(length == 0 && limit == 0);

    /* In use: left alone. */
    int second;
    cr_assert_eq(wr_socket_listen(&address, &options, &second), WR_ERR_SYSTEM);
    cr_assert_eq(errno, EADDRINUSE);
    close(client);
    close(server);
    close(listening);

    /* Stale: replaced. */
    cr_assert_eq(access(path, F_OK), 0);
    cr_assert_eq(wr_socket_listen(&address, &options, &second), WR_OK);
    client = connect_pair(second, &address, &server);
    close(client);
    close(server);
    close(second);
    unlink(path);

    /* Some other file: never removed. */
    close(open(path, O_CREAT | O_WRONLY, 0600));
    cr_assert_eq(wr_socket_listen(&address, &options, &second), WR_ERR_SYSTEM);
    cr_assert_eq(access(path, F_OK), 0);
    unlink(path);
    rmdir(folder);
}

/* ---- addresses as proxies write them, and networks ---- */

Test(socket, addresses_of_clients_come_with_and_without_port)
{
    static const struct {
        const char *text;
        const char *shown;
    } good[] = {
        {"192.0.2.1", "192.0.2.1:0"},
        {"192.0.2.1:80", "192.0.2.1:80"},
        {"2001:db8::1", "[2001:db8::1]:0"},
        {"[2001:db8::1]", "[2001:db8::1]:0"},
        {"[2001:db8::1]:80", "[2001:db8::1]:80"},
        {"::ffff:192.0.2.1", "[::ffff:192.0.2.1]:0"},
    };
    static const char *const bad[] = {"",        "unknown",     "unix:/x",    "_hidden",
                                      "192.0.2", "[192.0.2.1]", "192.0.2.1:", "192.0.2.1:x",
                                      "[::1",    "::1]"};
    char text[WR_ADDRESS_TEXT];
    struct wr_address address;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect_eq(wr_address_parse_host(wr_str_from(good[i].text), &address), WR_OK, "%s",
                     good[i].text);
        struct wr_str shown = wr_address_text(&address, false, text);
        cr_expect(wr_str_eq(shown, wr_str_from(good[i].shown)), "%.*s", WR_STR_ARG(shown));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_neq(wr_address_parse_host(wr_str_from(bad[i]), &address), WR_OK, "%s", bad[i]);
}

static uint64_t network(const char *text, unsigned ipv4_bits, unsigned ipv6_bits)
{
    struct wr_address address = parsed(text);
    return wr_address_network(&address, ipv4_bits, ipv6_bits);
}

Test(socket, a_network_is_the_leading_bits_of_an_address)
{
    cr_expect_eq(network("192.0.2.1:80", 32, 64), network("192.0.2.1:81", 32, 64));
    cr_expect_eq(network("192.0.2.1:80", 32, 64), network("[::ffff:192.0.2.1]:80", 32, 64));
    cr_expect_neq(network("192.0.2.1:80", 32, 64), network("192.0.2.2:80", 32, 64));
    cr_expect_eq(network("192.0.2.1:80", 24, 64), network("192.0.2.254:80", 24, 64));
    cr_expect_neq(network("192.0.2.1:80", 24, 64), network("192.0.3.1:80", 24, 64));
    cr_expect_neq(network("0.0.0.1:80", 1, 1), network("128.0.0.1:80", 1, 1));
    cr_expect_eq(network("[2001:db8:1:2::3]:80", 32, 64), network("[2001:db8:1:2:4::]:80", 32, 64));
    cr_expect_neq(network("[2001:db8:1:2::3]:80", 32, 64), network("[2001:db8:1:3::3]:80", 32, 64));
    cr_expect_eq(network("[2001:db8:1:2::3]:80", 32, 48), network("[2001:db8:1:3::3]:80", 32, 48));
    cr_expect_neq(network("0.0.0.0:0", 32, 64), network("[::]:0", 32, 64));
    cr_expect_eq(network("unix:/a", 32, 64), network("unix:/b", 32, 64));
}
