/* The command line of the binary: what it prints where, and its exit status. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char out[1 << 16];
static char err[1 << 16];

static void slurp(const char *path, char *text, size_t room)
{
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file);
    text[fread(text, 1, room - 1, file)] = '\0';
    (void)fclose(file);
    unlink(path);
}

/* The exit status of weir with ARGUMENTS, a shell's words, and INPUT. */
static int weir(const char *arguments, const char *input)
{
    char dir[] = "/tmp/weir-command-XXXXXX";
    char command[1024];
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(command, sizeof(command), "%s/weir.yaml", dir);
    FILE *file = fopen(command, "we");
    cr_assert_not_null(file);
    (void)fputs(input, file);
    (void)fclose(file);
    (void)snprintf(command, sizeof(command),
                   "cd %s && timeout 20 \"$WEIR_BIN\" %s <weir.yaml >out 2>err", dir, arguments);
    int status = system(command);
    (void)snprintf(command, sizeof(command), "%s/out", dir);
    slurp(command, out, sizeof(out));
    (void)snprintf(command, sizeof(command), "%s/err", dir);
    slurp(command, err, sizeof(err));
    (void)snprintf(command, sizeof(command), "%s/weir.yaml", dir);
    unlink(command);
    rmdir(dir);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_of(const char *input, const char *arguments, int status, const char *in_out,
                      const char *in_err)
{
    int got = weir(arguments, input);
    cr_expect_eq(got, status, "weir %s: %d\n%s%s", arguments, got, out, err);
    cr_expect(strstr(out, in_out), "weir %s: no \"%s\" in:\n%s", arguments, in_out, out);
    cr_expect(strstr(err, in_err), "weir %s: no \"%s\" in:\n%s", arguments, in_err, err);
    cr_expect(*in_out != '\0' || *out == '\0', "weir %s: %s", arguments, out);
    cr_expect(*in_err != '\0' || *err == '\0', "weir %s: %s", arguments, err);
}

static void expect(const char *arguments, int status, const char *in_out, const char *in_err)
{
    expect_of("", arguments, status, in_out, in_err);
}

Test(weir_command, help_is_told_when_asked_for)
{
    expect("help", 0, "Exit status:", "");
    expect("--help", 0, "Exit status:", "");
    expect("-h", 0, "Exit status:", "");
    expect("run --help", 0, "Exit status:", "");
    expect("version", 0, "weir 0", "");
    expect("--version", 0, "BoringSSL", "");
}

static const char good[] =
    "listeners: [{name: a, bind: '127.0.0.1:0', routes: [{respond: {body: x}}]}]\n";
static const char bad[] = "workers: many\n"
                          "listeners:\n"
                          "  - {bind: 127.0.0.1:0, rotues: [{cluster: a}]}\n";

/* Of every kind of value something, and what YAML and we would take for something else. */
static const char rich[] =
    "workers: 2\n"
    "signers: off\n"
    "admin: 127.0.0.1:0\n"
    "access_log: {to: \"log ${WEIR_NOWHERE:-x}$$1\"}\n"
    "defaults: {limits: {buffer: 48KiB}, timeouts: {keep_alive: 90s}}\n"
    "listeners:\n"
    "  - name: edge\n"
    "    bind: '[::1]:8443'\n"
    "    admission: {trusted: [10.0.0.0/8, 'fd00::/8'], max_pending_handshakes: infinity,\n"
    "                rates: {handshakes: 100}, refusal_share: 3%, refuse_with: alert}\n"
    "    requests: 500\n"
    "    routes:\n"
    "      - {name: \"a\\\"b\\\\\", match: {host: '*.example.com', path: /x}, cluster: web,\n"
    "         upgrade: [], rate: {per_second: 3, key: 'header:X'}}\n"
    "      - {match: {}, respond: {body: \"a $$5\\tb\\nc \\u00e9\", status: 404}}\n"
    "clusters:\n"
    "  - name: web\n"
    "    endpoints: ['127.0.0.1:8080', {address: localhost, port: 81}]\n"
    "    retry: {on: []}\n"
    "    tls: {verify: false}\n";

Test(weir_command, what_is_dumped_means_the_same)
{
    expect_of(rich, "dump -c -", 0, "max_handshake_delay: 100ms", "");
    cr_expect_not_null(strstr(out, "keep_alive: 90s"), "what the listener has from defaults: %s",
                       out);
    cr_expect_not_null(strstr(out, "to: \"log x$$1\""), "%s", out);
    cr_expect_not_null(strstr(out, "body: \"a $$5\\x09b\\x0ac \xc3\xa9\""), "%s", out);
    cr_expect_not_null(strstr(out, "max: 500"), "%s", out);
    cr_expect_null(strstr(out, "burst: 0\n"), "a second's worth is not nothing: %s", out);
    char *first = strdup(out);
    expect_of(first, "dump -c -", 0, "# What is in force", "");
    cr_expect_str_eq(out, first);
    free(first);
    expect_of(bad, "dump -c -", 2, "", "expected \"routes\"?");
}

Test(weir_command, every_key_is_told)
{
    expect("schema", 0, "| `max_pending_handshakes` | count, 0 to", "");
    expect("schema --json", 0, "\"max_pending_handshakes\": {", "");
    expect("schema --yaml", 2, "", "\"--yaml\" is not that");
}

Test(weir_command, wrong_usage_says_what_is_right)
{
    expect("", 2, "", "usage: weir run -c FILE");
    expect("chekc", 2, "", "did you mean \"check\"?");
    expect("runn", 2, "", "did you mean \"run\"?");
    expect("frobnicate", 2, "", "there are run, check, dump, health, schema, version, help");
    expect("run", 2, "", "weir run -c FILE");
    expect("run -c", 2, "", "\"-c\"");
    expect("run -c ''", 2, "", "takes -c FILE");
    expect("check -c a -c b", 2, "", "\"b\" is the second");
    expect("check x", 2, "", "\"x\" is not that");
    expect("version -c a", 2, "", "takes nothing");
}

Test(weir_command, check)
{
    expect_of(good, "check -c weir.yaml", 0, "weir: weir.yaml is valid\n", "");
    expect_of(good, "check --config=weir.yaml", 0, "weir: weir.yaml is valid\n", "");
    expect_of(good, "check -cweir.yaml", 0, "weir: weir.yaml is valid\n", "");
    expect_of(good, "check -c -", 0, "is valid\n", "");
}

Test(weir_command, every_error_has_its_place)
{
    expect_of(bad, "check -c weir.yaml", 2, "", "weir.yaml:1:");
    cr_expect(strstr(err, "weir.yaml:3:"), "%s", err);
    expect_of(bad, "run -c weir.yaml", 2, "", "weir.yaml:1:");
    expect("check -c nowhere.yaml", 2, "", "config/weir.yaml in the source is a sample");
    expect("run -c nowhere.yaml", 2, "", "nowhere.yaml: ");
}

Test(weir_command, run_that_cannot_start_says_why)
{
    expect_of("listeners: [{name: far, bind: '192.0.2.1:1', routes: [{respond: {body: x}}]}]\n",
              "run -c weir.yaml", 1, "", "far cannot listen on 192.0.2.1:1: ");
    expect_of("access_log: /nowhere/access.log\n"
              "listeners: [{name: a, bind: '127.0.0.1:0', routes: [{respond: {body: x}}]}]\n",
              "run -c weir.yaml", 1, "", "cannot open the access log /nowhere/access.log: No such");
}
