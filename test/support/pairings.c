#include "support/pairings.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/edge.h"

#define REST_MS 5000

const struct pairing pairings[PAIRINGS] = {
    {"h1 to h1", false, "/one/x", "one.test", "--http1.1"},
    {"h1 to h2", false, "/two/x", "two.test", "--http1.1"},
    {"h2 to h1", true, "/one/x", "one.test", "--http2"},
    {"h2 to h2", true, "/two/x", "two.test", "--http2"},
    {"h1 to h2 over TLS", false, "/three/x", "three.test", "--http1.1"},
    {"h2 to h2 over TLS", true, "/three/x", "three.test", "--http2"},
};

/* ---- the world ---- */

void pairings_start(struct pairings_world *world, void (*serve)(struct peer *, void *), void *arg)
{
    pairings_start_with(world, serve, arg, "", "");
}

void pairings_start_with(struct pairings_world *world, void (*serve)(struct peer *, void *),
                         void *arg, const char *listener, const char *cluster)
{
    world->origin = origin_start(serve, arg);
    world->inner =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners:\n"
                   "  - {name: mid, bind: 127.0.0.1:0, routes: [{cluster: origin}]}\n"
                   "  - {name: midtls, bind: 127.0.0.1:0, routes: [{cluster: origin}],\n"
                   "     tls: {certificates: [{chain: cert.pem, key: key.pem}]}}\n"
                   "clusters: [{name: origin, endpoints: [127.0.0.1:%d], protocol: http1}]\n",
                   origin_port(world->origin));
    world->outer =
        weir_start("workers: 1\nadmin: 127.0.0.1:0\n"
                   "listeners:\n"
                   "  - name: edge\n"
                   "    bind: 127.0.0.1:0\n"
                   "    %s\n"
                   "    tls: {certificates: [{chain: cert.pem, key: key.pem}]}\n"
                   "    routes:\n"
                   "      - {match: {path: /one/}, cluster: origin}\n"
                   "      - {match: {path: /two/}, cluster: mid}\n"
                   "      - {match: {path: /three/}, cluster: midtls}\n"
                   "      - {match: {host: one.test}, cluster: origin}\n"
                   "      - {match: {host: two.test}, cluster: mid}\n"
                   "      - {match: {host: three.test}, cluster: midtls}\n"
                   "clusters:\n"
                   "  - {name: origin, endpoints: [127.0.0.1:%d], protocol: http1%s}\n"
                   "  - {name: mid, endpoints: [127.0.0.1:%d], protocol: http2%s}\n"
                   "  - {name: midtls, endpoints: [127.0.0.1:%d],\n"
                   "     tls: {ca: %s/cert.pem, sni: localhost}%s}\n",
                   listener, origin_port(world->origin), cluster, weir_port(world->inner, "mid"),
                   cluster, weir_port(world->inner, "midtls"), weir_dir(world->inner), cluster);
}

static void expect_none(const struct weir *weir, const char *sample, const char *what)
{
    cr_expect(weir_metric_becomes(weir, sample, 0, edge_ms(REST_MS)), "%s: %s is %g", what, sample,
              weir_metric(weir, sample));
}

void pairings_expect_rest(const struct pairings_world *world, const char *what)
{
    expect_none(world->outer, "weir_connections_active{listener=\"edge\"}", what);
    expect_none(world->outer, "weir_upstream_connections_active{cluster=\"mid\"}", what);
    expect_none(world->outer, "weir_upstream_connections_active{cluster=\"midtls\"}", what);
    expect_none(world->inner, "weir_connections_active{listener=\"mid\"}", what);
    expect_none(world->inner, "weir_connections_active{listener=\"midtls\"}", what);
    for (int i = 0; i < 2; i++) {
        const struct weir *weir = i == 0 ? world->outer : world->inner;
        expect_none(weir, "weir_requests_active", what);
        expect_none(weir, "weir_upstream_connections_active{cluster=\"origin\"}", what);
        expect_none(weir, "weir_buffer_bytes", what);
    }
}

void pairings_stop(struct pairings_world *world)
{
    weir_stop(world->outer);
    weir_stop(world->inner);
    origin_stop(world->origin);
}

/* ---- asking ---- */

struct pairing_client pairing_connect(const struct pairings_world *world,
                                      const struct pairing *pairing)
{
    struct pairing_client client = {0};
    int port = weir_port(world->outer, "edge");

    if (pairing->h2)
        client.h2 = h2_peer_open(port, true, NULL);
    else
        client.peer = peer_connect_tls(port, NULL);
    cr_assert(client.h2 != NULL || client.peer != NULL, "%s: no connection", pairing->name);
    return client;
}

/* The head has gone; true: the interim answer to it has come. */
static bool continue_h1(struct pairing_client *client, struct text *out)
{
    cr_expect(peer_write(client->peer, out->p, out->n));
    text_free(out);
    struct reply reply = peer_reply(client->peer, false);
    bool continued = reply.status == 100;
    cr_expect(continued, "%d", reply.status);
    reply_free(&reply);
    return continued;
}

static void ask_h1(struct pairing_client *client, const struct pairing *pairing,
                   const struct pairing_request *request)
{
    struct text out = {0};

    text_say(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nTE: trailers\r\nConnection: TE\r\n",
             request->method, request->asterisk ? "*" : pairing->path,
             request->asterisk ? pairing->host : "localhost");
    if (request->expects)
        text_say(&out, "Expect: 100-continue\r\n");
    if (request->framing == PAIRING_LENGTH)
        text_say(&out, "Content-Length: %s\r\n", request->length);
    if (request->framing == PAIRING_UNKNOWN)
        text_say(&out, "Transfer-Encoding: chunked\r\n");
    text_say(&out, "\r\n");
    if (request->expects)
        client->continued = continue_h1(client, &out);
    if (request->framing == PAIRING_LENGTH)
        text_say(&out, "%s", request->content);
    if (request->framing == PAIRING_UNKNOWN)
        text_say(&out, "%zx\r\n%s\r\n", strlen(request->content), request->content);
    if (request->framing == PAIRING_UNKNOWN && !request->unfinished)
        text_say(&out, "0\r\n%s%s\r\n", request->trailer ? request->trailer : "",
                 request->trailer ? "\r\n" : "");
    cr_expect(peer_write(client->peer, out.p, out.n));
    text_free(&out);
}

static void head_h2(struct h2_peer *h2, const struct pairing *pairing,
                    const struct pairing_request *request)
{
    struct text fields = {0};

    text_say(&fields, ":method: %s\n:scheme: https\n:path: %s\n:authority: %s\nte: trailers\n",
             request->method, request->asterisk ? "*" : pairing->path,
             request->asterisk ? pairing->host : "localhost");
    if (request->framing == PAIRING_LENGTH)
        text_say(&fields, "content-length: %s\n", request->length);
    if (request->expects)
        text_say(&fields, "expect: 100-continue\n");
    h2_put_headers(&h2->out, 1, request->framing == PAIRING_NONE ? H2_END_STREAM : 0, fields.p);
    text_free(&fields);
    if (request->expects)
        cr_expect(h2_peer_hears(h2, "HEADERS/1[:status=100;"), "%s", h2_peer_log(h2));
}

static void ask_h2(struct h2_peer *h2, const struct pairing *pairing,
                   const struct pairing_request *request)
{
    char fields[128];
    bool last = !request->unfinished && request->trailer == NULL;

    head_h2(h2, pairing, request);
    if (request->framing != PAIRING_NONE)
        h2_put_data(&h2->out, 1, last ? H2_END_STREAM : 0, request->content);
    if (request->trailer != NULL) {
        (void)snprintf(fields, sizeof(fields), "%s\n", request->trailer);
        h2_put_headers(&h2->out, 1, H2_END_STREAM, fields);
    }
    h2_peer_send(h2);
}

void pairing_ask(struct pairing_client *client, const struct pairing *pairing,
                 const struct pairing_request *request)
{
    if (client->h2 != NULL)
        ask_h2(client->h2, pairing, request);
    else
        ask_h1(client, pairing, request);
}

bool pairing_hears(struct pairing_client *client, const char *text)
{
    char bytes[4096];
    size_t n = 0;
    enum peer_end end;

    if (client->h2 != NULL)
        return h2_peer_hears(client->h2, text);
    while (n + 1 < sizeof(bytes)) {
        size_t got = peer_read(client->peer, bytes + n, 1, &end);
        if (got == 0)
            return false;
        n += got;
        bytes[n] = '\0';
        if (strstr(bytes, text) != NULL)
            return true;
    }
    return false;
}

void pairing_close(struct pairing_client *client)
{
    if (client->h2 != NULL)
        h2_peer_free(client->h2);
    peer_free(client->peer);
    *client = (struct pairing_client){0};
}

void pairing_leave(struct pairing_client *client)
{
    if (client->h2 == NULL) {
        peer_reset(client->peer);
        return;
    }
    h2_put_reset(&client->h2->out, 1, 8);
    cr_expect(h2_peer_settles(client->h2), "%s", h2_peer_log(client->h2));
}

/* ---- seeing ---- */

static void see_fields(struct pairing_seen *seen, const char *head)
{
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        size_t name = strcspn(line + 2, ":\r");
        if (line[2 + name] != ':')
            continue;
        for (size_t i = 0; i < name; i++)
            text_say(&seen->fields, "%c", tolower((unsigned char)line[2 + i]));
        const char *value = line + 3 + name;
        value += strspn(value, " ");
        text_say(&seen->fields, "=%.*s;", (int)strcspn(value, "\r"), value);
    }
}

static struct pairing_seen see_h1(const struct pairing_client *client, const char *method)
{
    struct pairing_seen seen = {0};
    struct peer *peer = client->peer;
    if (client->continued)
        text_say(&seen.interim, "100 ");
    struct reply reply = peer_reply(peer, strcmp(method, "HEAD") == 0);

    for (; reply.status >= 100 && reply.status < 200;
         reply_free(&reply), reply = peer_reply(peer, false))
        text_say(&seen.interim, "%d ", reply.status);
    seen.status = reply.status;
    see_fields(&seen, reply.head);
    text_add(&seen.content, reply.body, reply.body_n);
    seen.whole = reply.whole;
    seen.refused = strstr(seen.fields.p ? seen.fields.p : "", "connection=close;") != NULL;
    reply_free(&reply);
    return seen;
}

/* One word of the log: NAME[INSIDE]. */
static void see_frame(struct pairing_seen *seen, const char *name, const char *inside, size_t n)
{
    if (strncmp(name, "DATA/1", 6) == 0) {
        text_add(&seen->content, inside, n);
    } else if (strncmp(name, "HEADERS/1", 9) == 0 && strncmp(inside, ":status=", 8) != 0) {
        text_add(&seen->trailers, inside, n);
    } else if (strncmp(name, "HEADERS/1", 9) == 0) {
        int status = (int)strtol(inside + 8, NULL, 10);
        if (status < 200) {
            text_say(&seen->interim, "%d ", status);
        } else {
            seen->status = status;
            text_add(&seen->fields, inside, n);
        }
    } else if (strncmp(name, "RST/1[0]", 8) == 0) {
        seen->refused = true;
    } else {
        return;
    }
    seen->whole |= strncmp(name + strcspn(name, "+["), "+ES", 3) == 0;
}

static struct pairing_seen see_h2(struct h2_peer *h2)
{
    struct pairing_seen seen = {0};

    while (strstr(h2_peer_log(h2), "+ES[") == NULL && strstr(h2_peer_log(h2), "RST/1[") == NULL)
        if (!h2_peer_reads(h2))
            break;
    (void)h2_peer_settles(h2);
    for (const char *at = h2_peer_log(h2); *at != '\0';) {
        const char *inside = strchr(at, '[');
        const char *end = inside ? strstr(inside, "] ") : NULL;
        if (end == NULL)
            break;
        see_frame(&seen, at, inside + 1, (size_t)(end - inside - 1));
        at = end + 2;
    }
    return seen;
}

struct pairing_seen pairing_see(struct pairing_client *client, const char *method)
{
    return client->h2 != NULL ? see_h2(client->h2) : see_h1(client, method);
}

void pairing_seen_free(struct pairing_seen *seen)
{
    text_free(&seen->interim);
    text_free(&seen->fields);
    text_free(&seen->content);
    text_free(&seen->trailers);
}
