#include "support/nginx.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/certificate.h"
#include "support/peer.h"

#define READY_MS 10000

struct nginx {
    pid_t pid;
    int port;
    int tls_port;
    int h2_port;
    int h2_tls_port;
    char dir[64];
};

static const char configuration[] = "daemon off;\n"
                                    "user root;\n"
                                    "worker_processes 1;\n"
                                    "pid %s/nginx.pid;\n"
                                    "error_log %s/error.log;\n"
                                    "events { worker_connections 4096; }\n"
                                    "http {\n"
                                    "  log_format plain '$connection $status $request';\n"
                                    "  access_log %s/access.log plain;\n"
                                    "  client_max_body_size 0;\n"
                                    "  client_body_temp_path %s/body;\n"
                                    "  proxy_temp_path %s/proxy;\n"
                                    "  fastcgi_temp_path %s/fastcgi;\n"
                                    "  uwsgi_temp_path %s/uwsgi;\n"
                                    "  scgi_temp_path %s/scgi;\n"
                                    "  %s\n"
                                    "  server {\n"
                                    "    listen 127.0.0.1:%d;\n"
                                    "    listen 127.0.0.1:%d ssl;\n"
                                    "    listen 127.0.0.1:%d http2;\n"
                                    "    listen 127.0.0.1:%d ssl http2;\n"
                                    "    ssl_certificate %s/cert.pem;\n"
                                    "    ssl_certificate_key %s/key.pem;\n"
                                    "    root %s/www;\n"
                                    "    %s\n"
                                    "  }\n"
                                    "}\n";

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)getsockname(fd, (struct sockaddr *)&address, &length);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void write_configuration(const struct nginx *nginx, const char *http, const char *server)
{
    const char *d = nginx->dir;
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/www", d);
    (void)mkdir(path, 0755);
    (void)snprintf(path, sizeof(path), "%s/nginx.conf", d);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    (void)fprintf(file, configuration, d, d, d, d, d, d, d, d, http ? http : "", nginx->port,
                  nginx->tls_port, nginx->h2_port, nginx->h2_tls_port, d, d, d,
                  server ? server : "");
    (void)fclose(file);
}

static void run_child(const struct nginx *nginx)
{
    char path[128];

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)snprintf(path, sizeof(path), "%s/nginx.conf", nginx->dir);
    (void)execlp("nginx", "nginx", "-p", nginx->dir, "-c", path, (char *)NULL);
    (void)execl("/usr/sbin/nginx", "nginx", "-p", nginx->dir, "-c", path, (char *)NULL);
    _exit(127);
}

static void wait_ready(struct nginx *nginx)
{
    const struct timespec ms10 = {0, 10 * 1000 * 1000};

    for (int waited = 0;; waited += 10) {
        struct peer *peer = peer_connect(nginx->port);
        peer_free(peer);
        if (peer)
            return;
        cr_assert(waitpid(nginx->pid, NULL, WNOHANG) == 0, "nginx ended at once");
        cr_assert(waited < READY_MS, "nginx does not come up");
        (void)nanosleep(&ms10, NULL);
    }
}

struct nginx *nginx_start(const char *http, const char *server)
{
    struct nginx *nginx = calloc(1, sizeof(*nginx));

    (void)snprintf(nginx->dir, sizeof(nginx->dir), "/tmp/weir-nginx-XXXXXX");
    cr_assert_not_null(mkdtemp(nginx->dir));
    (void)chmod(nginx->dir, 0755);
    certificate_make(nginx->dir, "", "DNS:localhost,IP:127.0.0.1");
    nginx->port = free_port();
    nginx->tls_port = free_port();
    nginx->h2_port = free_port();
    nginx->h2_tls_port = free_port();
    write_configuration(nginx, http, server);
    nginx->pid = fork();
    if (nginx->pid == 0)
        run_child(nginx);
    wait_ready(nginx);
    return nginx;
}

void nginx_stop(struct nginx *nginx)
{
    char command[128];

    (void)kill(nginx->pid, SIGTERM);
    (void)waitpid(nginx->pid, NULL, 0);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", nginx->dir);
    (void)!system(command);
    free(nginx);
}

int nginx_port(const struct nginx *nginx)
{
    return nginx->port;
}

int nginx_tls_port(const struct nginx *nginx)
{
    return nginx->tls_port;
}

int nginx_h2_port(const struct nginx *nginx)
{
    return nginx->h2_port;
}

int nginx_h2_tls_port(const struct nginx *nginx)
{
    return nginx->h2_tls_port;
}

const char *nginx_dir(const struct nginx *nginx)
{
    return nginx->dir;
}

void nginx_reload(const struct nginx *nginx)
{
    (void)kill(nginx->pid, SIGHUP);
}
