/* The one file outside io and transport that knows libevent: its HTTP server. */
#include "server/admin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>

#include "base/mem.h"
#include "base/time.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "observe/log.h"
#include "server/admission_page.h"
#include "server/dashboard.h"

#define MAX_CONNECTIONS 32
#define MAX_HEAD (8 * 1024)
#define MAX_CONTENT 1024
#define STALL_SECONDS 5            /* without a byte either way */
#define MAX_AGE (15 * WR_SEC)      /* of a connection, which serves one request */
#define LOOK_EVERY (250 * WR_MSEC) /* for connections that are too old, and to accept again */

/* A connection. evhttp tells nobody when it frees one, so a reference of ours is held beside its own: from time to time
 * it is let go, and libevent says whether it was the last. */
struct slot {
    struct bufferevent *connection; /* NULL: free */
    uint64_t since;
};

struct wr_admin {
    struct wr_metrics_registry *registry;
    struct wr_admission_watch *watch; /* of its thread */
    atomic_int state;                 /* enum wr_admin_state */
    pthread_t thread;
    struct wr_loop *loop;
    struct wr_mailbox *mailbox;
    struct wr_mail stop_mail;
    struct wr_deadline look;
    struct evhttp *http;
    struct evconnlistener *listener; /* HTTP's own */
    struct slot slots[MAX_CONNECTIONS];
    unsigned used;
};

/* ---- answers ---- */

/* One request a connection: so every connection is over soon, whatever its client has in mind. */
static void reply(struct evhttp_request *request, int status, const char *reason,
                  const char *content_type, const void *text, size_t n)
{
    struct evkeyvalq *fields = evhttp_request_get_output_headers(request);
    char length[24];
    (void)snprintf(length, sizeof(length), "%zu", n);
    evhttp_add_header(fields, "Content-Type", content_type);
    evhttp_add_header(fields, "Content-Length", length);
    evhttp_add_header(fields, "Connection", "close");
    evhttp_add_header(fields, "Cache-Control", "no-store");
    evhttp_add_header(fields, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(fields, "Content-Security-Policy",
                      "default-src 'none'; script-src 'self'; style-src 'self'; "
                      "connect-src 'self'; img-src data:; frame-ancestors 'none'");
    struct evbuffer *content = NULL;
    if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD) {
        content = evbuffer_new();
        if (content != NULL)
            evbuffer_add(content, text, n);
    }
    evhttp_send_reply(request, status, reason, content);
    if (content != NULL)
        evbuffer_free(content);
}

static void reply_text(struct evhttp_request *request, int status, const char *reason,
                       const char *text)
{
    reply(request, status, reason, "text/plain; charset=utf-8", text, strlen(text));
}

static void serve_metrics(struct wr_admin *admin, struct evhttp_request *request)
{
    size_t length;
    char *text = wr_metrics_render(admin->registry, &length);
    reply(request, 200, "OK", "text/plain; version=0.0.4; charset=utf-8", text, length);
    free(text);
}

static bool asks_for_json(struct evhttp_request *request)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    return query != NULL && strcmp(query, "format=json") == 0;
}

static void serve_admission(struct wr_admin *admin, struct evhttp_request *request)
{
    bool json = asks_for_json(request);
    bool draining = atomic_load(&admin->state) == WR_ADMIN_DRAINING;
    size_t length;
    char *text =
        wr_admission_page_render(admin->watch, json ? WR_ADMISSION_JSON : WR_ADMISSION_TEXT,
                                 draining, wr_loop_now(admin->loop), &length);
    reply(request, 200, "OK", json ? "application/json" : "text/plain; charset=utf-8", text,
          length);
    free(text);
}

static void serve_health(struct wr_admin *admin, struct evhttp_request *request)
{
    (void)admin;
    reply_text(request, 200, "OK", "ok\n");
}

static void serve_ready(struct wr_admin *admin, struct evhttp_request *request)
{
    switch ((enum wr_admin_state)atomic_load(&admin->state)) {
    case WR_ADMIN_READY:
        reply_text(request, 200, "OK", "ready\n");
        break;
    case WR_ADMIN_STARTING:
        reply_text(request, 503, "Service Unavailable", "starting\n");
        break;
    case WR_ADMIN_DRAINING:
        reply_text(request, 503, "Service Unavailable", "draining\n");
        break;
    }
}

/* Browsers get the dashboard, all others a list. */
static void serve_index(struct wr_admin *admin, struct evhttp_request *request)
{
    const char *accepted = evhttp_find_header(evhttp_request_get_input_headers(request), "Accept");
    (void)admin;
    if (accepted != NULL && strstr(accepted, "text/html") != NULL) {
        reply(request, 200, "OK", "text/html; charset=utf-8", wr_embedded_index_html,
              wr_embedded_index_html_size);
        return;
    }
    reply_text(request, 200, "OK",
               "weir admin\n"
               "/metrics    counters, gauges and histograms, as Prometheus reads them\n"
               "/admission  why connections are refused just now, and what would change that;\n"
               "            ?format=json for machines\n"
               "/healthz    200 while the process lives\n"
               "/readyz     200 while it accepts connections, else 503\n"
               "/           in a browser: the dashboard\n");
}

static void serve_style(struct wr_admin *admin, struct evhttp_request *request)
{
    (void)admin;
    reply(request, 200, "OK", "text/css; charset=utf-8", wr_embedded_dashboard_css,
          wr_embedded_dashboard_css_size);
}

static void serve_script(struct wr_admin *admin, struct evhttp_request *request)
{
    (void)admin;
    reply(request, 200, "OK", "text/javascript; charset=utf-8", wr_embedded_dashboard_js,
          wr_embedded_dashboard_js_size);
}

static const struct page {
    const char *path;
    void (*serve)(struct wr_admin *admin, struct evhttp_request *request);
} pages[] = {
    {"/", serve_index},
    {"/metrics", serve_metrics},
    {"/admission", serve_admission},
    {"/healthz", serve_health},
    {"/readyz", serve_ready},
    {"/dashboard.css", serve_style},
    {"/dashboard.js", serve_script},
};

static void on_request(struct evhttp_request *request, void *arg)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
    enum evhttp_cmd_type method = evhttp_request_get_command(request);
    const struct page *page = NULL;
    for (size_t i = 0; path != NULL && i < WR_COUNT_OF(pages); i++) {
        if (strcmp(path, pages[i].path) == 0)
            page = &pages[i];
    }
    if (page == NULL) {
        reply_text(request, 404, "Not Found", "no such page; / lists them\n");
    } else if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
        evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", "GET, HEAD");
        reply_text(request, 405, "Method Not Allowed", "GET and HEAD only\n");
    } else {
        page->serve(arg, request);
    }
}

/* ---- connections ---- */

/* Frees the slots of connections that have ended; their sockets are closed with that. */
static void sweep(struct wr_admin *admin)
{
    for (size_t i = 0; i < WR_COUNT_OF(admin->slots); i++) {
        struct slot *slot = &admin->slots[i];
        if (slot->connection == NULL)
            continue;
        if (bufferevent_decref(slot->connection)) {
            slot->connection = NULL;
            admin->used--;
        } else {
            bufferevent_incref(slot->connection);
        }
    }
}

static struct slot *free_slot(struct wr_admin *admin)
{
    for (size_t i = 0; i < WR_COUNT_OF(admin->slots); i++) {
        if (admin->slots[i].connection == NULL)
            return &admin->slots[i];
    }
    return NULL;
}

/* evhttp wants the bufferevent of a connection it has just accepted. No more are accepted when this was the last slot. */
static struct bufferevent *on_accepted(struct event_base *base, void *arg)
{
    struct wr_admin *admin = arg;
    struct slot *slot = free_slot(admin);
    struct bufferevent *connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (slot == NULL || connection == NULL)
        return connection;
    bufferevent_incref(connection);
    slot->connection = connection;
    slot->since = wr_loop_now(admin->loop);
    admin->used++;
    if (admin->used == MAX_CONNECTIONS)
        sweep(admin);
    if (admin->used == MAX_CONNECTIONS)
        evconnlistener_disable(admin->listener);
    return connection;
}

/* accept() failed, for want of descriptors most likely: without a pause the loop would spin on it. */
static void on_accept_failed(struct evconnlistener *listener, void *arg)
{
    (void)arg;
    wr_log(WR_LOG_WARN, "admin", "cannot accept: %s; pausing", strerror(errno));
    evconnlistener_disable(listener);
}

/* One that evhttp gave up before it had given it its socket is nobody's. Any other ends as if its client had gone. */
static void end_old(struct bufferevent *connection)
{
    evutil_socket_t fd = bufferevent_getfd(connection);
    if (fd < 0)
        bufferevent_free(connection);
    else
        (void)shutdown(fd, SHUT_RDWR);
}

static void on_look(struct wr_deadline *deadline, uint64_t now)
{
    struct wr_admin *admin = WR_CONTAINER_OF(deadline, struct wr_admin, look);
    sweep(admin);
    for (size_t i = 0; i < WR_COUNT_OF(admin->slots); i++) {
        struct slot *slot = &admin->slots[i];
        if (slot->connection != NULL && now >= wr_time_add(slot->since, MAX_AGE))
            end_old(slot->connection);
    }
    if (admin->used < MAX_CONNECTIONS)
        evconnlistener_enable(admin->listener);
    wr_admission_watch_look(admin->watch, now);
    wr_loop_deadline_set(admin->loop, deadline, now + LOOK_EVERY);
}

/* ---- life ---- */

static void run_stop(struct wr_mail *mail)
{
    wr_loop_stop(WR_CONTAINER_OF(mail, struct wr_admin, stop_mail)->loop);
}

static void *run(void *arg)
{
    struct wr_admin *admin = arg;
    (void)pthread_setname_np(pthread_self(), "weir-admin");
    wr_loop_deadline_set(admin->loop, &admin->look, wr_loop_now(admin->loop) + LOOK_EVERY);
    wr_loop_run(admin->loop);
    return NULL;
}

static void free_admin(struct wr_admin *admin)
{
    if (admin->http != NULL)
        evhttp_free(admin->http);
    sweep(admin);
    wr_mailbox_free(admin->mailbox);
    if (admin->loop != NULL) {
        wr_loop_deadline_remove(admin->loop, &admin->look);
        wr_loop_turn(admin->loop, 0); /* libevent frees connections in the turn after */
    }
    wr_loop_free(admin->loop);
    wr_admission_watch_free(admin->watch);
    free(admin);
}

/* Methods that are not served are let through, so that they are answered 405 and not evhttp's 501. */
static void set_up(struct wr_admin *admin)
{
    evhttp_set_max_headers_size(admin->http, MAX_HEAD);
    evhttp_set_max_body_size(admin->http, MAX_CONTENT);
    evhttp_set_timeout(admin->http, STALL_SECONDS);
    evhttp_set_allowed_methods(admin->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                                EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                                EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
                                                EVHTTP_REQ_PATCH);
    evhttp_set_gencb(admin->http, on_request, admin);
    evhttp_set_bevcb(admin->http, on_accepted, admin);
}

/* Takes over FD. */
static enum wr_err open_http(struct wr_admin *admin, int fd)
{
    admin->http = evhttp_new(wr_loop_event_base(admin->loop));
    struct evhttp_bound_socket *bound =
        admin->http != NULL ? evhttp_accept_socket_with_handle(admin->http, fd) : NULL;
    if (bound == NULL) {
        close(fd);
        return WR_ERR_NO_MEMORY;
    }
    admin->listener = evhttp_bound_socket_get_listener(bound);
    evconnlistener_set_error_cb(admin->listener, on_accept_failed);
    set_up(admin);
    return WR_OK;
}

enum wr_err wr_admin_start(struct wr_metrics_registry *registry, const struct wr_snapshot *snapshot,
                           int fd, struct wr_admin **out)
{
    struct wr_admin *admin = WR_NEW(struct wr_admin);
    *out = NULL;
    admin->registry = registry;
    atomic_init(&admin->state, WR_ADMIN_STARTING);
    admin->stop_mail.run = run_stop;
    wr_deadline_init(&admin->look, on_look);

    enum wr_err err = wr_loop_new(WR_CLOCK_MONOTONIC, &admin->loop);
    if (err == WR_OK)
        err = wr_mailbox_new(admin->loop, &admin->mailbox);
    if (err == WR_OK)
        err = open_http(admin, fd);
    else
        close(fd);
    if (err == WR_OK)
        admin->watch = wr_admission_watch_new(registry, snapshot, wr_loop_now(admin->loop));
    if (err == WR_OK && pthread_create(&admin->thread, NULL, run, admin) != 0)
        err = WR_ERR_SYSTEM;
    if (err != WR_OK) {
        wr_log(WR_LOG_ERROR, "admin", "cannot be started: %s", wr_err_text(err));
        free_admin(admin);
        return err;
    }
    *out = admin;
    return WR_OK;
}

void wr_admin_set_state(struct wr_admin *admin, enum wr_admin_state state)
{
    if (admin != NULL)
        atomic_store(&admin->state, (int)state);
}

void wr_admin_stop(struct wr_admin *admin)
{
    if (admin == NULL)
        return;
    wr_mailbox_post(admin->mailbox, &admin->stop_mail);
    (void)pthread_join(admin->thread, NULL);
    free_admin(admin);
}
