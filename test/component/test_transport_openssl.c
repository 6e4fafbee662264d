/* Against another implementation: OpenSSL's s_client and s_server as processes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "support/transport_lab.h"

struct process {
    pid_t pid;
    int in;  /* its standard input */
    int out; /* its standard output and error, non-blocking */
    char text[65536];
    size_t length;
};

static struct lab lab;
static struct lab_end end;
static struct wr_tls_server *server_tls;
static struct wr_tls_client *client_tls;
static struct process process;
static int listening;
static char port[16];
static const char *const alpn[] = {"h2", "http/1.1"};

static void set_up(void)
{
    lab_open(&lab);
    end = (struct lab_end){0};
    process = (struct process){.pid = -1};
    server_tls = NULL;
    client_tls = NULL;
    listening = -1;
}

static void stop(void)
{
    if (process.pid < 0)
        return;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, NULL, 0);
    close(process.in);
    close(process.out);
    process = (struct process){.pid = -1};
}

static void tear_down(void)
{
    stop();
    if (listening >= 0)
        close(listening);
    lab_end_free(&end);
    wr_tls_server_release(server_tls);
    wr_tls_client_release(client_tls);
    lab_close(&lab);
}

TestSuite(transport_openssl, .init = set_up, .fini = tear_down, .timeout = 60);

static void start(const char *const arguments[])
{
    int in[2];
    int out[2];
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    process.pid = fork();
    if (process.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        execvp("openssl", (char *const *)arguments);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    process.in = in[1];
    process.out = out[0];
    cr_assert_eq(fcntl(process.out, F_SETFL, O_NONBLOCK), 0);
}

/* Whether the process has said TEXT by now. */
static bool has_said(const char *text)
{
    size_t room = sizeof process.text - 1 - process.length;
    ssize_t n = read(process.out, process.text + process.length, room);
    if (n > 0)
        process.length += (size_t)n;
    process.text[process.length] = '\0';
    return strstr(process.text, text) != NULL;
}

static void say(const char *text)
{
    cr_assert_eq(write(process.in, text, strlen(text)), (ssize_t)strlen(text));
}

/* ---- s_client before our server ---- */

static void listen_anywhere(struct wr_address *address)
{
    socklen_t size = sizeof address->storage;
    cr_assert_eq(wr_address_parse(WR_STR("127.0.0.1:0"), address), WR_OK);
    cr_assert_eq(wr_socket_listen(address, &(struct wr_listen_options){0}, &listening), WR_OK);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address->storage, &size), 0);
    (void)snprintf(port, sizeof port, "%d", wr_address_port(address));
}

static void serve(const char *option, const char *second, const char *third)
{
    struct wr_address address;
    char target[32];
    char bundle[128];
    int fd = -1;
    listen_anywhere(&address);
    (void)snprintf(target, sizeof target, "127.0.0.1:%s", port);
    (void)snprintf(bundle, sizeof bundle, "%s/cert.pem", lab.dir);
    const char *const arguments[] = {"openssl", "s_client",    "-connect",  target,  "-CAfile",
                                     bundle,    "-servername", "localhost", "-alpn", "h2,http/1.1",
                                     option,    second,        third,       NULL};
    server_tls = lab_server(&lab, true, alpn, 2);
    start(arguments);
    while (fd < 0) {
        usleep(1000);
        fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    lab_accept(&lab, &end, fd, server_tls);
}

static void serve_version(const char *option, const char *version)
{
    struct wr_tls_info info;
    end.echo = true;
    serve(option, NULL, NULL);
    LAB_WAIT(&lab, end.established == 1);
    cr_assert(wr_transport_tls_info(end.transport, &info));
    cr_assert_str_eq(info.version, version);
    cr_assert(wr_str_eq(info.alpn, WR_STR("h2")));
    say("echo this\n");
    LAB_WAIT(&lab, has_said("Verify return code: 0 (ok)") && end.got_length == 10);
    const char *greeting = strstr(process.text, "---\n");
    cr_assert_not_null(greeting);
    LAB_WAIT(&lab, has_said("\necho this\n"));
    say("Q\n");
    LAB_WAIT(&lab, end.read_ends == 1);
    cr_assert(end.clean);
}

Test(transport_openssl, s_client_with_tls_1_3)
{
    serve_version("-tls1_3", "TLSv1.3");
}

Test(transport_openssl, s_client_with_tls_1_2)
{
    serve_version("-tls1_2", "TLSv1.2");
}

Test(transport_openssl, tls_1_1_is_refused)
{
    serve("-tls1_1", "-cipher", "ALL:@SECLEVEL=0");
    LAB_WAIT(&lab, end.closes == 1);
    cr_assert_eq(end.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(end.detail, "UNSUPPORTED_PROTOCOL");
    LAB_WAIT(&lab, has_said("alert protocol version"));
}

Test(transport_openssl, ciphers_without_forward_secrecy_or_aead_are_refused)
{
    serve("-tls1_2", "-cipher", "AES128-GCM-SHA256:AES128-SHA:ECDHE-ECDSA-AES128-SHA256");
    LAB_WAIT(&lab, end.closes == 1);
    cr_assert_eq(end.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(end.detail, "NO_SHARED_CIPHER");
}

Test(transport_openssl, renegotiation_is_refused)
{
    serve("-tls1_2", NULL, NULL);
    LAB_WAIT(&lab, end.established == 1);
    LAB_WAIT(&lab, has_said("Verify return code"));
    say("R\n");
    LAB_WAIT(&lab, end.closes == 1);
    cr_assert_eq(end.why, WR_ERR_TLS_FAILED);
    cr_assert_str_eq(end.detail, "NO_RENEGOTIATION");
    LAB_WAIT(&lab, has_said("no renegotiation"));
}

Test(transport_openssl, the_refusing_alert_is_heard)
{
    end.refuse_in_hello = WR_REFUSE_ALERT + 1;
    serve(NULL, NULL, NULL);
    LAB_WAIT(&lab, end.flushes == 1);
    LAB_WAIT(&lab, has_said("alert internal error"));
}

Test(transport_openssl, key_updates_of_s_client)
{
    end.echo = true;
    serve("-tls1_3", NULL, NULL);
    LAB_WAIT(&lab, end.established == 1);
    say("K\n");
    LAB_WAIT(&lab, has_said("KEYUPDATE"));
    say("after\n");
    LAB_WAIT(&lab, end.got_length == 6);
    LAB_WAIT(&lab, has_said("\nafter\n"));
}

/* ---- our client before s_server ---- */

static void connect_to_s_server(const char *option)
{
    struct wr_address address;
    char certificate[128];
    char key[128];
    (void)snprintf(certificate, sizeof certificate, "%s/cert.pem", lab.dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", lab.dir);
    listen_anywhere(&address);
    close(listening); /* its port is free now */
    listening = -1;
    const char *const arguments[] = {"openssl", "s_server", "-accept", port, "-cert", certificate,
                                     "-key",    key,        "-alpn",   "h2", option,  NULL};
    start(arguments);
    LAB_WAIT(&lab, has_said("ACCEPT"));
    client_tls = lab_client(&lab, NULL, alpn, 2);
    end.lab = &lab;
    cr_assert_eq(wr_transport_connect(lab.host, &address, client_tls,
                                      (struct wr_transport_counters){NULL, NULL}, &lab_events, &end,
                                      &end.transport),
                 WR_OK);
    LAB_WAIT(&lab, end.established == 1);
}

static void use_s_server(const char *option, const char *version)
{
    struct wr_tls_info info;
    connect_to_s_server(option);
    cr_assert(wr_transport_tls_info(end.transport, &info));
    cr_assert_str_eq(info.version, version);
    cr_assert(wr_str_eq(info.alpn, WR_STR("h2")));
    wr_transport_write(end.transport, "from weir\n", 10);
    LAB_WAIT(&lab, has_said("from weir\n"));
    say("from openssl\n");
    LAB_WAIT(&lab, end.got_length == 13);
    cr_assert_arr_eq(end.got, "from openssl\n", 13);
    say("q\n"); /* without close_notify */
    LAB_WAIT(&lab, end.read_ends == 1);
    cr_assert_not(end.clean);
}

Test(transport_openssl, s_server_with_tls_1_3)
{
    use_s_server("-tls1_3", "TLSv1.3");
}

Test(transport_openssl, s_server_with_tls_1_2)
{
    use_s_server("-tls1_2", "TLSv1.2");
}

Test(transport_openssl, the_renegotiation_an_upstream_asks_for_is_refused)
{
    connect_to_s_server("-tls1_2");
    say("r\n");
    LAB_WAIT(&lab, end.closes == 1);
    cr_assert_eq(end.why, WR_ERR_UPSTREAM_TLS_FAILED);
}
