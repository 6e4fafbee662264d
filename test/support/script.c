#include "support/script.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define REQUESTS_MAX 8192
#define HEAD_MAX (128 * 1024)
#define WAIT_SECONDS 10

struct script {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct script_answer *answers;
    size_t count;
    size_t next;
    unsigned connections;
    unsigned requests;
    unsigned wholes;
    unsigned ended;
    bool released;
    struct script_request *made[REQUESTS_MAX];
};

struct script *script_new(const struct script_answer *answers, size_t count)
{
    struct script *script = calloc(1, sizeof(*script));
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&script->lock, NULL);
    pthread_cond_init(&script->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    script->answers = answers;
    script->count = count;
    return script;
}

void script_free(struct script *script)
{
    for (unsigned i = 0; i < script->requests; i++) {
        free(script->made[i]->head);
        free(script->made[i]->raw);
        free(script->made[i]->content);
        free(script->made[i]);
    }
    pthread_cond_destroy(&script->changed);
    pthread_mutex_destroy(&script->lock);
    free(script);
}

void script_set(struct script *script, const struct script_answer *answers, size_t count)
{
    pthread_mutex_lock(&script->lock);
    script->answers = answers;
    script->count = count;
    script->next = 0;
    pthread_mutex_unlock(&script->lock);
}

/* ---- one request, as it comes ---- */

static void append(char **to, size_t *n, const char *p, size_t more)
{
    size_t room = 256;

    while (room < *n + more + 1)
        room *= 2;
    *to = realloc(*to, room);
    memcpy(*to + *n, p, more);
    *n += more;
    (*to)[*n] = '\0';
}

static const char *field_of(const char *head, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
            return line + 3 + length;
    return NULL;
}

/* One byte at a time: what is read is kept, however it ends. */
static bool read_line(struct peer *client, struct script_request *request, size_t *start)
{
    char byte;

    *start = request->raw_n;
    do {
        if (!peer_read_exactly(client, &byte, 1))
            return false;
        append(&request->raw, &request->raw_n, &byte, 1);
    } while (byte != '\n');
    return true;
}

static bool read_counted(struct peer *client, struct script_request *request, size_t n)
{
    char buffer[16384];
    enum peer_end end;

    while (n > 0) {
        size_t got = peer_read(client, buffer, n < sizeof(buffer) ? n : sizeof(buffer), &end);
        if (got == 0)
            return false;
        append(&request->raw, &request->raw_n, buffer, got);
        append(&request->content, &request->content_n, buffer, got);
        n -= got;
    }
    return true;
}

static bool read_chunks(struct peer *client, struct script_request *request)
{
    size_t start;
    size_t n;

    do {
        char *end;
        if (!read_line(client, request, &start))
            return false;
        n = strtoull(request->raw + start, &end, 16);
        if (end == request->raw + start || strcmp(end, "\r\n") != 0)
            return false;
        if (n > 0 && (!read_counted(client, request, n) || !read_line(client, request, &start) ||
                      strcmp(request->raw + start, "\r\n") != 0))
            return false;
    } while (n > 0);
    do {
        if (!read_line(client, request, &start))
            return false;
    } while (strcmp(request->raw + start, "\r\n") != 0);
    return true;
}

static bool read_content(struct peer *client, struct script_request *request)
{
    const char *length = field_of(request->head, "content-length");

    if (field_of(request->head, "transfer-encoding"))
        return read_chunks(client, request);
    return read_counted(client, request, length ? strtoull(length, NULL, 10) : 0);
}

static void finish(struct script *script, struct script_request *request, bool whole)
{
    pthread_mutex_lock(&script->lock);
    request->whole = whole;
    script->wholes += whole;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->lock);
}

/* ---- a connection ---- */

static struct script_answer begin(struct script *script, struct script_request *request)
{
    struct script_answer answer = {0};

    pthread_mutex_lock(&script->lock);
    if (script->requests == REQUESTS_MAX)
        abort();
    script->made[script->requests++] = request;
    if (script->count > 0)
        answer = script->answers[script->next < script->count ? script->next : script->count - 1];
    script->next++;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->lock);
    if (!answer.bytes)
        answer.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (answer.n == 0)
        answer.n = strlen(answer.bytes);
    return answer;
}

static void wait_release(struct script *script)
{
    pthread_mutex_lock(&script->lock);
    while (!script->released)
        pthread_cond_wait(&script->changed, &script->lock);
    pthread_mutex_unlock(&script->lock);
}

static bool serve_request(struct peer *client, struct script *script, const char *head,
                          unsigned connection)
{
    struct script_request *request = calloc(1, sizeof(*request));

    request->head = strdup(head);
    request->raw = calloc(1, 1);
    request->content = calloc(1, 1);
    request->connection = connection;
    struct script_answer answer = begin(script, request);
    bool going = !answer.interim || peer_say(client, answer.interim);
    if (going && answer.when != SCRIPT_WHOLE)
        going = peer_write(client, answer.bytes, answer.n);
    if (answer.when == SCRIPT_DEAF)
        wait_release(script);
    bool whole = going && read_content(client, request);
    finish(script, request, whole);
    if (!whole)
        return false;
    if (answer.when == SCRIPT_WHOLE)
        going = peer_write(client, answer.bytes, answer.n);
    if (answer.then == SCRIPT_RESET)
        peer_reset(client);
    return going && answer.then == SCRIPT_KEEP;
}

void script_serve(struct peer *client, void *arg)
{
    struct script *script = arg;
    char *head = malloc(HEAD_MAX);

    pthread_mutex_lock(&script->lock);
    unsigned connection = ++script->connections;
    pthread_mutex_unlock(&script->lock);
    while (peer_read_head(client, head, HEAD_MAX))
        if (!serve_request(client, script, head, connection))
            break;
    free(head);
    pthread_mutex_lock(&script->lock);
    script->ended++;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->lock);
}

void script_release(struct script *script)
{
    pthread_mutex_lock(&script->lock);
    script->released = true;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->lock);
}

/* ---- what it was asked ---- */

static unsigned look(struct script *script, const unsigned *count)
{
    pthread_mutex_lock(&script->lock);
    unsigned now = *count;
    pthread_mutex_unlock(&script->lock);
    return now;
}

unsigned script_requests(struct script *script)
{
    return look(script, &script->requests);
}

unsigned script_ended(struct script *script)
{
    return look(script, &script->ended);
}

static bool wait_for(struct script *script, const unsigned *count, unsigned wanted)
{
    struct timespec until;
    int failed = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&script->lock);
    while (*count < wanted && !failed)
        failed = pthread_cond_timedwait(&script->changed, &script->lock, &until);
    bool there = *count >= wanted;
    pthread_mutex_unlock(&script->lock);
    return there;
}

bool script_wait_requests(struct script *script, unsigned count)
{
    return wait_for(script, &script->requests, count);
}

bool script_wait_whole(struct script *script, unsigned count)
{
    return wait_for(script, &script->wholes, count);
}

bool script_wait_ended(struct script *script, unsigned count)
{
    return wait_for(script, &script->ended, count);
}

const struct script_request *script_request(struct script *script, unsigned index)
{
    cr_assert_lt(index, script_requests(script), "the origin has not seen request %u", index);
    return script->made[index];
}

const char *script_field(struct script *script, unsigned index, const char *name)
{
    static char value[8192];
    const char *at = field_of(script_request(script, index)->head, name);

    if (!at)
        return "";
    while (*at == ' ')
        at++;
    (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
    return value;
}

unsigned script_fields(struct script *script, unsigned index, const char *name)
{
    unsigned count = 0;
    const char *at = script_request(script, index)->head;

    while ((at = field_of(at, name)) != NULL)
        count++;
    return count;
}
