/* Row 57 of the table of hostile input: what is routed is what is forwarded. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/stage.h"

#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))

struct path_case {
    const char *sent;
    int status;           /* 403: the route of /admin, 200: the origin, 400: refused */
    const char *upstream; /* what the origin sees */
};

static const char routes[] = "{match: {path: /admin}, respond: {status: 403}}, "
                             "{match: {path: /api/private/}, respond: {status: 403}}";

static void expect_path(struct stage *stage, const struct path_case *c)
{
    unsigned before = script_requests(stage->script);
    char request[512];
    char line[512];

    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", c->sent);
    int status = stage_status(stage, request);
    cr_expect_eq(status, c->status, "%s: %d", c->sent, status);
    cr_expect_eq(script_requests(stage->script), before + (c->status == 200),
                 "%s: whether it reaches the origin", c->sent);
    if (c->status != 200 || script_requests(stage->script) == before)
        return;
    (void)snprintf(line, sizeof(line), "GET %s HTTP/1.1\r\n", c->upstream);
    cr_expect(strncmp(script_request(stage->script, before)->head, line, strlen(line)) == 0,
              "%s went as %.60s", c->sent, script_request(stage->script, before)->head);
}

static void expect_paths(const char *listener, const struct path_case *cases, size_t count)
{
    struct stage *stage =
        stage_start(&(struct stage_options){.routes = routes, .listener = listener});

    for (size_t i = 0; i < count; i++)
        expect_path(stage, &cases[i]);
    stage_stop(stage);
}

Test(row_57, strict)
{
    static const struct path_case cases[] = {
        {"/", 200, "/"},
        {"/a/b?c=/../d", 200, "/a/b?c=/../d"},
        {"/admin", 403, NULL},
        {"/admin/x", 403, NULL},
        {"/admin?x", 403, NULL},
        {"/administrator", 200, "/administrator"},
        {"/x/../admin", 403, NULL},
        {"/x/%2e%2e/admin", 403, NULL},
        {"/x/%2E./admin", 403, NULL},
        {"/./admin", 403, NULL},
        {"/x/./../admin/.", 403, NULL},
        {"/api/x/../private/y", 403, NULL},
        {"/admin/../x", 200, "/x"},
        {"/admin/%2e%2e/x", 200, "/x"},
        {"/a/b/..", 200, "/a/"},
        {"/a/b/.", 200, "/a/b/"},
        {"/%61dmin", 403, NULL},
        {"/%61%64%6d%69%6e", 403, NULL},
        {"/%7Euser", 200, "/~user"},
        {"//admin", 200, "//admin"},
        {"/x//../admin", 200, "/x/admin"},
        {"/x%2fadmin", 200, "/x%2fadmin"},
        {"/..%2fadmin", 200, "/..%2fadmin"},
        {"/admin%2f..%2fx", 200, "/admin%2f..%2fx"},
        {"/x;/admin", 200, "/x;/admin"},
        {"/..;/admin", 200, "/..;/admin"},
        {"/admin;x", 200, "/admin;x"},
        {"/%2561dmin", 200, "/%2561dmin"},
        {"/ADMIN", 200, "/ADMIN"},
        {"/...", 200, "/..."},
        {"/.../admin", 200, "/.../admin"},
        {"/%c3%a4?%c3%a4", 200, "/%c3%a4?%c3%a4"},
        {"/..", 400, NULL},
        {"/../admin", 400, NULL},
        {"/x/../../admin", 400, NULL},
        {"/%2e%2e/admin", 400, NULL},
        {"/x\\..\\admin", 400, NULL},
        {"/%00", 400, NULL},
        {"/admin%00x", 400, NULL},
        {"/x?%00", 400, NULL},
        {"/x#/../admin", 400, NULL},
        {"/x?#", 400, NULL},
        {"/\xc3\xa4", 400, NULL},
        {"/\x7f", 400, NULL},
        {"/\x01", 400, NULL},
        {"/\x1b[0m", 400, NULL},
        {"/\t", 400, NULL},
        {"/a b", 400, NULL},
        {"/%", 400, NULL},
        {"/%4", 400, NULL},
        {"/%zz", 400, NULL},
    };

    expect_paths(NULL, cases, COUNT(cases));
}

Test(row_57, merge_slashes)
{
    static const struct path_case cases[] = {
        {"//admin", 403, NULL},
        {"/x//../admin", 403, NULL},
        {"/api//private//x", 403, NULL},
        {"/a//b?c//d", 200, "/a/b?c//d"},
        {"/x%2f%2fadmin", 200, "/x%2f%2fadmin"},
        {"/%00", 400, NULL},
        {"/x\\..\\admin", 400, NULL},
    };

    expect_paths("path: merge_slashes", cases, COUNT(cases));
}

/* The bytes as they come decide, for weir as for the origin. */
Test(row_57, raw)
{
    static const struct path_case cases[] = {
        {"/admin", 403, NULL},
        {"/admin/../x", 403, NULL},
        {"/x/../admin", 200, "/x/../admin"},
        {"/%61dmin", 200, "/%61dmin"},
        {"//admin", 200, "//admin"},
        {"/x\\..\\admin", 200, "/x\\..\\admin"},
        {"/%zz", 200, "/%zz"},
        {"/%00", 400, NULL},
        {"/\xc3\xa4", 400, NULL},
        {"/x#y", 400, NULL},
    };

    expect_paths("path: raw", cases, COUNT(cases));
}

Test(row_57, asterisk_and_hosts)
{
    static const char by_host[] = "{match: {host: \"*.example.com\"}, respond: {status: 403}}, "
                                  "{match: {host: one.example.org}, respond: {status: 403}}";
    static const struct {
        const char *host;
        int status;
    } hosts[] = {
        {"localhost", 200},         {"a.example.com", 403},    {"A.Example.COM", 403},
        {"a.example.com.", 403},    {"a.example.com:80", 403}, {"a.b.example.com", 403},
        {"example.com", 200},       {"aexample.com", 200},     {"one.example.org", 403},
        {"ONE.example.org:1", 403}, {"two.example.org", 200},  {"one.example.org.evil", 200},
    };
    struct stage *stage = stage_start(&(struct stage_options){.routes = by_host});
    char request[256];

    for (size_t i = 0; i < COUNT(hosts); i++) {
        (void)snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n",
                       hosts[i].host);
        int status = stage_status(stage, request);
        cr_expect_eq(status, hosts[i].status, "%s: %d", hosts[i].host, status);
    }
    unsigned before = script_requests(stage->script);
    cr_expect_eq(stage_status(stage, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    cr_assert_eq(script_requests(stage->script), before + 1);
    cr_expect(strncmp(script_request(stage->script, before)->head, "OPTIONS * HTTP/1.1\r\n", 20) ==
              0);
    stage_stop(stage);
}
