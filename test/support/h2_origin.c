#include "support/h2_origin.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "support/weir.h"

#define MOST_CONNECTIONS 1024
#define MOST_REQUESTS 8192
#define WAIT_SECONDS 10

struct h2_origin {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct h2_origin_rules rules;
    struct h2_visit *visits[MOST_CONNECTIONS];
    unsigned connections;
    struct h2_asked made[MOST_REQUESTS];
    unsigned requests;
    unsigned wholes;
};

struct h2_origin *h2_origin_new(const struct h2_origin_rules *rules)
{
    struct h2_origin *origin = calloc(1, sizeof(*origin));
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&origin->lock, NULL);
    pthread_cond_init(&origin->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (rules)
        origin->rules = *rules;
    return origin;
}

void h2_origin_free(struct h2_origin *origin)
{
    for (unsigned i = 0; i < origin->connections; i++) {
        text_free(&origin->visits[i]->out);
        text_free(&origin->visits[i]->log);
        free(origin->visits[i]);
    }
    pthread_cond_destroy(&origin->changed);
    pthread_mutex_destroy(&origin->lock);
    free(origin);
}

void h2_origin_set(struct h2_origin *origin, const struct h2_origin_rules *rules)
{
    pthread_mutex_lock(&origin->lock);
    origin->rules = *rules;
    pthread_mutex_unlock(&origin->lock);
}

/* ---- what rules do ---- */

static void set_over(struct h2_visit *visit, struct h2_asked *asked)
{
    visit->open -= !asked->over;
    asked->over = true;
}

void h2_origin_answer(struct h2_visit *visit, struct h2_asked *asked)
{
    h2_put_headers(&visit->out, asked->id, 0, ":status: 200\n");
    h2_put_data(&visit->out, asked->id, H2_END_STREAM, "ok");
    set_over(visit, asked);
}

void h2_origin_reset(struct h2_visit *visit, struct h2_asked *asked, uint32_t code)
{
    h2_put_reset(&visit->out, asked->id, code);
    set_over(visit, asked);
}

void h2_origin_refuse(struct h2_visit *visit, struct h2_asked *asked)
{
    asked->disowned = true;
    h2_origin_reset(visit, asked, 7);
}

void h2_origin_hold(struct h2_visit *visit, struct h2_asked *asked)
{
    (void)visit;
    (void)asked;
}

void h2_origin_goaway(struct h2_visit *visit, uint32_t last, uint32_t code)
{
    struct h2_origin *origin = visit->origin;

    h2_put_goaway(&visit->out, last, code);
    for (unsigned i = 0; i < origin->requests; i++) {
        struct h2_asked *asked = &origin->made[i];
        if (asked->connection != visit->number || asked->id <= last)
            continue;
        asked->disowned = true;
        set_over(visit, asked);
    }
}

void h2_origin_answer_all(struct h2_visit *visit)
{
    struct h2_origin *origin = visit->origin;

    for (unsigned i = 0; i < origin->requests; i++) {
        struct h2_asked *asked = &origin->made[i];
        if (asked->connection == visit->number && asked->whole && !asked->over)
            h2_origin_answer(visit, asked);
    }
}

/* ---- what comes ---- */

static struct h2_asked *find(struct h2_visit *visit, uint32_t id)
{
    struct h2_origin *origin = visit->origin;

    for (unsigned i = origin->requests; i > 0; i--) {
        struct h2_asked *asked = &origin->made[i - 1];
        if (asked->connection == visit->number && asked->id == id)
            return asked;
    }
    return NULL;
}

static void copy_field(const char *payload, const char *name, char *to, size_t size)
{
    const char *at = strstr(payload, name);
    size_t n = at ? strcspn(at + strlen(name), ";") : 0;

    if (n >= size)
        n = size - 1;
    if (at)
        memcpy(to, at + strlen(name), n);
    to[n] = '\0';
}

static unsigned times(const struct h2_origin *origin, const char *path)
{
    unsigned count = 0;

    for (unsigned i = 0; i < origin->requests; i++)
        count += strcmp(origin->made[i].path, path) == 0;
    return count;
}

static struct h2_asked *begin(struct h2_visit *visit, uint32_t id, const char *payload)
{
    struct h2_origin *origin = visit->origin;

    if (origin->requests == MOST_REQUESTS)
        abort();
    struct h2_asked *asked = &origin->made[origin->requests++];
    *asked = (struct h2_asked){.connection = visit->number, .id = id, .reset = -1};
    copy_field(payload, ":method=", asked->method, sizeof(asked->method));
    copy_field(payload, ":path=", asked->path, sizeof(asked->path));
    asked->times = times(origin, asked->path);
    visit->open++;
    if (visit->most < visit->open)
        visit->most = visit->open;
    if (origin->rules.asked)
        origin->rules.asked(visit, asked);
    return asked;
}

static void end_request(struct h2_visit *visit, struct h2_asked *asked)
{
    struct h2_origin *origin = visit->origin;

    asked->whole = true;
    origin->wholes++;
    if (asked->over)
        return;
    if (origin->rules.whole)
        origin->rules.whole(visit, asked);
    else
        h2_origin_answer(visit, asked);
}

static void on_stream(struct h2_visit *visit, const char *name, uint32_t id, bool last,
                      const char *payload)
{
    struct h2_asked *asked = find(visit, id);

    if (!asked && strcmp(name, "HEADERS") == 0)
        asked = begin(visit, id, payload);
    if (!asked)
        return;
    if (strcmp(name, "DATA") == 0)
        asked->content += *payload == '#' ? strtoul(payload + 1, NULL, 10) : strlen(payload);
    if (strcmp(name, "RST") == 0) {
        asked->reset = (int)strtoul(payload, NULL, 10);
        set_over(visit, asked);
    }
    if (last)
        end_request(visit, asked);
}

/* NAME/ID+FLAG[PAYLOAD], cut into its parts. */
static void on_frame(struct h2_visit *visit, char *frame)
{
    char *payload = strchr(frame, '[');
    *payload++ = '\0';
    char *flag = strchr(frame, '+');
    if (flag)
        *flag++ = '\0';
    char *id = strchr(frame, '/');
    if (id)
        *id++ = '\0';
    if (id)
        on_stream(visit, frame, (uint32_t)strtoul(id, NULL, 10), flag && strcmp(flag, "ES") == 0,
                  payload);
    else if (strcmp(frame, "SETTINGS") == 0 && !flag)
        h2_put_frame(&visit->out, H2_SETTINGS, H2_ACK, 0, "", 0);
    else if (strcmp(frame, "PING") == 0 && !flag && !visit->origin->rules.hung)
        h2_put_ping(&visit->out, H2_ACK, payload);
}

static void on_frames(struct h2_visit *visit, size_t from)
{
    char *copy = strdup(visit->log.p + from);

    for (char *at = copy, *end; (end = strstr(at, "] ")) != NULL; at = end + 2) {
        *end = '\0';
        on_frame(visit, at);
    }
    free(copy);
}

/* ---- connections ---- */

static void flush(struct h2_visit *visit)
{
    if (!visit->gone)
        (void)peer_write(visit->peer, visit->out.p, visit->out.n);
    text_free(&visit->out);
}

static struct h2_visit *arrive(struct h2_origin *origin, struct peer *peer)
{
    static const uint32_t nothing[] = {0};
    struct h2_visit *visit = calloc(1, sizeof(*visit));

    pthread_mutex_lock(&origin->lock);
    if (origin->connections == MOST_CONNECTIONS)
        abort();
    origin->visits[origin->connections++] = visit;
    visit->origin = origin;
    visit->number = origin->connections;
    visit->peer = peer;
    h2_put_settings(&visit->out, origin->rules.settings ? origin->rules.settings : nothing);
    flush(visit);
    pthread_cond_broadcast(&origin->changed);
    pthread_mutex_unlock(&origin->lock);
    return visit;
}

void h2_origin_serve(struct peer *client, void *arg)
{
    struct h2_origin *origin = arg;
    struct h2_visit *visit = arrive(origin, client);
    struct h2_reader *reader = h2_reader_new(true);
    char bytes[16384];
    enum peer_end end = PEER_OPEN;

    peer_set_wait(client, 10 * 60 * 1000); /* until weir or the test is over */
    while (end == PEER_OPEN) {
        size_t n = peer_read(client, bytes, sizeof(bytes), &end);
        pthread_mutex_lock(&origin->lock);
        size_t from = visit->log.n;
        h2_reader_read(reader, bytes, n, &visit->log);
        if (visit->log.n > from)
            on_frames(visit, from);
        visit->gone |= n == 0;
        flush(visit);
        pthread_cond_broadcast(&origin->changed);
        pthread_mutex_unlock(&origin->lock);
    }
    h2_reader_free(reader);
}

/* ---- the test's own thread ---- */

/* Waits for a change; false when none came in time. The lock is held. */
static bool wait_change(struct h2_origin *origin, const struct timespec *until)
{
    return pthread_cond_timedwait(&origin->changed, &origin->lock, until) == 0;
}

static struct timespec deadline(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_SECONDS * weir_slowness();
    return until;
}

static bool wait_count(struct h2_origin *origin, const unsigned *counter, unsigned count)
{
    struct timespec until = deadline();

    pthread_mutex_lock(&origin->lock);
    while (*counter < count && wait_change(origin, &until))
        continue;
    bool enough = *counter >= count;
    pthread_mutex_unlock(&origin->lock);
    return enough;
}

struct h2_visit *h2_origin_enter(struct h2_origin *origin, unsigned number)
{
    cr_assert(wait_count(origin, &origin->connections, number), "no connection %u", number);
    pthread_mutex_lock(&origin->lock);
    return origin->visits[number - 1];
}

void h2_origin_leave(struct h2_visit *visit)
{
    flush(visit);
    pthread_mutex_unlock(&visit->origin->lock);
}

void h2_origin_end(struct h2_visit *visit, bool reset)
{
    struct linger linger = {1, 0};

    flush(visit);
    if (!visit->gone && reset)
        (void)setsockopt(peer_fd(visit->peer), SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    if (!visit->gone)
        (void)shutdown(peer_fd(visit->peer), reset ? SHUT_RD : SHUT_RDWR);
    visit->gone = true;
    pthread_mutex_unlock(&visit->origin->lock);
}

bool h2_origin_wait(struct h2_origin *origin, unsigned requests)
{
    return wait_count(origin, &origin->requests, requests);
}

bool h2_origin_wait_whole(struct h2_origin *origin, unsigned requests)
{
    return wait_count(origin, &origin->wholes, requests);
}

static bool has(const struct h2_visit *visit, const char *text)
{
    return visit->log.p && strstr(visit->log.p, text);
}

bool h2_origin_hears(struct h2_origin *origin, unsigned number, const char *text)
{
    struct timespec until = deadline();
    struct h2_visit *visit = h2_origin_enter(origin, number);

    while (!has(visit, text) && !visit->gone && wait_change(origin, &until))
        continue;
    bool heard = has(visit, text);
    pthread_mutex_unlock(&origin->lock);
    return heard;
}

bool h2_origin_wait_gone(struct h2_origin *origin, unsigned number)
{
    struct timespec until = deadline();
    struct h2_visit *visit = h2_origin_enter(origin, number);

    while (!visit->gone && wait_change(origin, &until))
        continue;
    bool gone = visit->gone;
    pthread_mutex_unlock(&origin->lock);
    return gone;
}

unsigned h2_origin_connections(struct h2_origin *origin)
{
    pthread_mutex_lock(&origin->lock);
    unsigned connections = origin->connections;
    pthread_mutex_unlock(&origin->lock);
    return connections;
}

unsigned h2_origin_requests(struct h2_origin *origin)
{
    pthread_mutex_lock(&origin->lock);
    unsigned requests = origin->requests;
    pthread_mutex_unlock(&origin->lock);
    return requests;
}

unsigned h2_origin_times(struct h2_origin *origin, const char *path)
{
    pthread_mutex_lock(&origin->lock);
    unsigned count = times(origin, path);
    pthread_mutex_unlock(&origin->lock);
    return count;
}

struct h2_asked h2_origin_request(struct h2_origin *origin, unsigned index)
{
    pthread_mutex_lock(&origin->lock);
    bool there = index < origin->requests;
    struct h2_asked asked = origin->made[there ? index : 0];
    pthread_mutex_unlock(&origin->lock);
    cr_assert(there, "no request %u", index);
    return asked;
}

/* How often the origin may have processed what came as number INDEX. */
static unsigned processed(const struct h2_origin *origin, unsigned index)
{
    unsigned count = 0;

    for (unsigned i = 0; i < origin->requests; i++)
        count += !origin->made[i].disowned &&
                 strcmp(origin->made[i].path, origin->made[index].path) == 0;
    return count;
}

void h2_origin_expect_once(struct h2_origin *origin)
{
    pthread_mutex_lock(&origin->lock);
    for (unsigned i = 0; i < origin->requests; i++) {
        const struct h2_asked *asked = &origin->made[i];
        unsigned most = strcmp(asked->method, "GET") == 0 ? 2 : 1;
        cr_expect_leq(processed(origin, i), most, "%s %s came %u times", asked->method, asked->path,
                      processed(origin, i));
    }
    pthread_mutex_unlock(&origin->lock);
}
