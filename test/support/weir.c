#include "support/weir.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/peer.h"

#define READY_MS 20000

struct weir {
    pid_t pid;
    int status;
    bool ended;
    char dir[64];
};

static void nap(void)
{
    struct timespec ms10 = {0, 10 * 1000 * 1000};
    (void)nanosleep(&ms10, NULL);
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int weir_slowness(void)
{
    return getenv("WEIR_TEST_SLOW") ? 4 : 1;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t room = 65536;
    size_t n = 0;
    char *text = calloc(1, room);

    while (file) {
        size_t got = fread(text + n, 1, room - n - 1, file);
        if (got == 0)
            break;
        n += got;
        if (room - n < 4096) {
            room *= 2;
            text = realloc(text, room);
        }
    }
    text[n] = '\0';
    if (file)
        (void)fclose(file);
    return text;
}

char *weir_file(const struct weir *weir, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", weir->dir, name);
    return read_file(path);
}

char *weir_log(const struct weir *weir)
{
    return weir_file(weir, "stderr.log");
}

static void run_child(const struct weir *weir, const char *binary)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY);
    if (chdir(weir->dir) != 0)
        _exit(126);
    int err = open("stderr.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    int out = open("stdout.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(null, 0);
    (void)dup2(out, 1);
    (void)dup2(err, 2);
    (void)close(null);
    (void)close(err);
    (void)close(out);
    (void)execl(binary, "weir", "run", "-c", "weir.yaml", (char *)NULL);
    _exit(127);
}

static bool reap(struct weir *weir)
{
    if (!weir->ended && waitpid(weir->pid, &weir->status, WNOHANG) == weir->pid)
        weir->ended = true;
    return weir->ended;
}

static bool is_ready(struct weir *weir)
{
    char *log = weir_log(weir);
    bool listens = strstr(log, "listening name=admin") != NULL;

    free(log);
    if (!listens)
        return false;
    char *ready = weir_admin_get(weir, "/readyz");
    free(ready);
    return ready != NULL;
}

struct weir *weir_start(const char *format, ...)
{
    struct weir *weir = calloc(1, sizeof(*weir));
    const char *binary = getenv("WEIR_BIN");
    char path[128];
    va_list args;

    cr_assert(binary != NULL, "WEIR_BIN names no binary");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(weir->dir, sizeof(weir->dir), "/tmp/weir-test-XXXXXX");
    cr_assert(mkdtemp(weir->dir) != NULL);
    certificate_make(weir->dir, "", "DNS:localhost,IP:127.0.0.1");
    (void)snprintf(path, sizeof(path), "%s/weir.yaml", weir->dir);
    FILE *file = fopen(path, "we");
    va_start(args, format);
    (void)vfprintf(file, format, args);
    va_end(args);
    (void)fclose(file);
    weir->pid = fork();
    if (weir->pid == 0)
        run_child(weir, binary);
    long end = now_ms() + (long)READY_MS * weir_slowness();
    while (!is_ready(weir)) {
        if (reap(weir) || now_ms() > end) {
            char *log = weir_log(weir);
            (void)kill(weir->pid, SIGKILL);
            cr_assert_fail("weir did not come up:\n%s", log);
        }
        nap();
    }
    return weir;
}

int weir_port(const struct weir *weir, const char *name)
{
    char wanted[128];
    char *log = weir_log(weir);
    int port = -1;

    (void)snprintf(wanted, sizeof(wanted), "listening name=%s address=", name);
    char *at = strstr(log, wanted);
    if (at) {
        at[strcspn(at, "\n")] = '\0';
        char *colon = strrchr(at, ':');
        port = colon ? (int)strtol(colon + 1, NULL, 10) : -1;
    }
    free(log);
    cr_assert(port > 0, "no listener named %s", name);
    return port;
}

pid_t weir_pid(const struct weir *weir)
{
    return weir->pid;
}

const char *weir_dir(const struct weir *weir)
{
    return weir->dir;
}

int weir_wait(struct weir *weir, int signal, int wait_ms)
{
    if (signal)
        (void)kill(weir->pid, signal);
    long end = now_ms() + (long)wait_ms * weir_slowness();
    while (!reap(weir)) {
        if (now_ms() > end) {
            char *log = weir_log(weir);
            (void)kill(weir->pid, SIGKILL);
            cr_assert_fail("weir did not end in time:\n%s", log);
        }
        nap();
    }
    return WIFEXITED(weir->status) ? WEXITSTATUS(weir->status) : 128 + WTERMSIG(weir->status);
}

void weir_stop(struct weir *weir)
{
    char command[128];
    bool ran = !reap(weir);
    int status = weir_wait(weir, ran ? SIGTERM : 0, 20000);
    char *log = weir_log(weir);

    cr_expect(!ran || status == 0, "weir ended with %d:\n%s", status, log);
    cr_expect(!strstr(log, "Sanitizer") && !strstr(log, "runtime error"), "%s", log);
    free(log);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", weir->dir);
    (void)!system(command);
    free(weir);
}

char *weir_admin_get(const struct weir *weir, const char *path)
{
    struct peer *peer = peer_connect(weir_port(weir, "admin"));
    char request[256];
    char *body = NULL;

    if (!peer)
        return NULL;
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    if (peer_say(peer, request)) {
        struct reply reply = peer_reply(peer, false);
        if (reply.status == 200 && reply.whole)
            body = strdup(reply.body);
        reply_free(&reply);
    }
    peer_free(peer);
    return body;
}

double weir_metric(const struct weir *weir, const char *sample)
{
    char *text = weir_admin_get(weir, "/metrics");
    size_t n = strlen(sample);
    double value = 0;

    cr_assert(text != NULL, "no metrics");
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, sample, n) == 0 && line[n] == ' ')
            value = strtod(line + n + 1, NULL);
        if (*line == '\0')
            break;
    }
    free(text);
    return value;
}

bool weir_metric_becomes(const struct weir *weir, const char *sample, double value, int wait_ms)
{
    long end = now_ms() + (long)wait_ms * weir_slowness();

    for (;;) {
        double now = weir_metric(weir, sample);
        if (now == value)
            return true;
        if (now_ms() > end)
            return false;
        nap();
    }
}

bool weir_file_has(const struct weir *weir, const char *name, const char *text, int wait_ms)
{
    long end = now_ms() + (long)wait_ms * weir_slowness();

    for (;;) {
        char *have = weir_file(weir, name);
        bool found = strstr(have, text) != NULL;
        free(have);
        if (found)
            return true;
        if (now_ms() > end)
            return false;
        nap();
    }
}

size_t weir_rss(const struct weir *weir)
{
    char path[64];
    unsigned long size = 0;
    unsigned long resident = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)weir->pid);
    char *text = read_file(path);
    (void)sscanf(text, "%lu %lu", &size, &resident);
    free(text);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

unsigned long weir_cpu_ms(const struct weir *weir)
{
    char path[64];
    unsigned long user = 0;
    unsigned long system_time = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)weir->pid);
    char *text = read_file(path);
    const char *at = strrchr(text, ')');
    if (at)
        (void)sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                     &system_time);
    free(text);
    return (user + system_time) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}
