/* What a request in steady state asks of the allocator: nothing by weir itself. What is left is told for each library. weir runs with
 * preload/count_allocations.c, which counts for all of its threads and libraries; a build with sanitizers has its own
 * allocator, and is not asked. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/h2_frames.h"
#include "support/origin.h"
#include "support/weir.h"

#define WARMING 200
#define COUNTED 500
#define CONTENT 8192

struct world {
    struct origin *origin;
    struct weir *inner; /* before the origin, speaks HTTP/2 */
    struct weir *outer; /* the one that is looked at */
    _Atomic uint64_t *asked;
};

static struct world world;

static void share_count(void)
{
    char path[] = "/tmp/weir-allocations-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && ftruncate(fd, sizeof(*world.asked)) == 0);
    world.asked = mmap(NULL, sizeof(*world.asked), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(world.asked != MAP_FAILED);
    (void)close(fd);
    (void)setenv("WEIR_ALLOCATIONS", path, 1);
}

static void start(void)
{
    const char *library = getenv("WEIR_PRELOAD");
    if (library == NULL)
        cr_skip_test("this build has an allocator of its own");
    world.origin = origin_start(origin_echo_content, NULL);
    world.inner =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners: [{name: mid, bind: 127.0.0.1:0, routes: [{cluster: origin}]}]\n"
                   "clusters: [{name: origin, endpoints: [127.0.0.1:%d]}]\n",
                   origin_port(world.origin));
    share_count();
    (void)setenv("LD_PRELOAD", library, 1);
    world.outer = weir_start("workers: 1\nadmin: 127.0.0.1:0\naccess_log: access.log\n"
                             "listeners:\n"
                             "  - {name: plain, bind: 127.0.0.1:0, routes: &routes\n"
                             "       [{match: {path: /h2}, cluster: mid}, {cluster: origin}]}\n"
                             "  - {name: tls, bind: 127.0.0.1:0, routes: *routes,\n"
                             "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
                             "clusters:\n"
                             "  - {name: origin, endpoints: [127.0.0.1:%d], protocol: http1}\n"
                             "  - {name: mid, endpoints: [127.0.0.1:%d], protocol: http2}\n",
                             origin_port(world.origin), weir_port(world.inner, "mid"));
    (void)unsetenv("LD_PRELOAD");
    (void)unlink(getenv("WEIR_ALLOCATIONS"));
}

static void stop(void)
{
    if (world.outer == NULL)
        return;
    weir_stop(world.outer);
    weir_stop(world.inner);
    origin_stop(world.origin);
    (void)munmap(world.asked, sizeof(*world.asked));
}

TestSuite(allocations, .init = start, .fini = stop);

/* At most MOST a request; one in a hundred may be for something that happens now and then. */
static void expect_most(uint64_t before, unsigned most, const char *what)
{
    uint64_t asked = atomic_load(world.asked) - before;
    cr_log_info("%s: %.2f allocations a request", what, (double)asked / COUNTED);
    cr_expect_leq(asked, most * COUNTED + COUNTED / 100, "%s: %.2f allocations a request", what,
                  (double)asked / COUNTED);
}

/* ---- HTTP/1.1 ---- */

static void ask_h1(struct peer *peer, const char *path, const char *content)
{
    char request[CONTENT + 512];
    (void)snprintf(request, sizeof(request),
                   "%s %s HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux "
                   "x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: text/html\r\n"
                   "Accept-Language: en\r\nCookie: a=b; c=d\r\nContent-Length: %zu\r\n\r\n%s",
                   content[0] != '\0' ? "POST" : "GET", path, strlen(content), content);
    cr_assert(peer_say(peer, request));
    struct reply reply = peer_reply(peer, false);
    cr_assert_eq(reply.status, 200, "%s", reply.head);
    cr_assert_str_eq(reply.body, content);
    reply_free(&reply);
}

static void count_h1(struct peer *peer, const char *path, const char *content, unsigned most,
                     const char *what)
{
    cr_assert_not_null(peer);
    uint64_t before = 0;
    for (unsigned i = 0; i < WARMING + COUNTED; i++) {
        if (i == WARMING)
            before = atomic_load(world.asked);
        ask_h1(peer, path, content);
    }
    expect_most(before, most, what);
    peer_free(peer);
}

static const char *large(void)
{
    static char content[CONTENT + 1];
    memset(content, 'x', CONTENT);
    return content;
}

Test(allocations, of_a_request_over_http1)
{
    int port = weir_port(world.outer, "plain");
    count_h1(peer_connect(port), "/", "", 0, "GET, h1 to h1");
    count_h1(peer_connect(port), "/", large(), 0, "POST, h1 to h1");
}

/* BoringSSL has a buffer for each record it opens and each it seals, for as long as that takes. */
Test(allocations, of_a_request_over_tls)
{
    int port = weir_port(world.outer, "tls");
    count_h1(peer_connect_tls(port, NULL), "/", "", 2, "GET, TLS, h1 to h1");
}

/* ---- HTTP/2 ---- */

static void count_h2(const char *path, unsigned most, const char *what)
{
    struct h2_peer *h2 = h2_peer_open(weir_port(world.outer, "plain"), false, NULL);
    cr_assert_not_null(h2);
    uint64_t before = 0;
    for (uint32_t i = 0; i < WARMING + COUNTED; i++) {
        char end[32];
        if (i == WARMING)
            before = atomic_load(world.asked);
        (void)snprintf(end, sizeof(end), "/%u+ES", 2 * i + 1);
        h2_peer_get(h2, 2 * i + 1, path);
        cr_assert(h2_peer_hears(h2, end), "%s", h2_peer_log(h2));
    }
    expect_most(before, most, what);
    h2_peer_free(h2);
}

/* nghttp2 has a stream, the frame that goes, and each field that is no entry of a table. */
Test(allocations, of_a_request_over_http2)
{
    count_h2("/", 11, "GET, h2 to h1");
    count_h2("/h2", 15, "GET, h2 to h2");
}
