#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "observe/access_log.h"

static char folder[] = "/tmp/weir-test-access-XXXXXX";
static char path[64];
static char raw_path[64];
static struct wr_metrics_registry *registry;
static struct wr_worker_metrics *metrics;

static void start(void)
{
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    (void)snprintf(raw_path, sizeof(raw_path), "%s/raw", folder);
    registry = wr_metrics_registry_new();
    metrics = wr_metrics_new_worker(registry);
}

static void stop(void)
{
    wr_metrics_registry_free(registry);
    unlink(path);
    unlink(raw_path);
    rmdir(folder);
}

TestSuite(access_log, .init = start, .fini = stop);

static struct wr_writer *writer;

static struct wr_access_log *open_log(void)
{
    cr_assert_eq(wr_writer_open(path, 8 << 20, &writer), WR_OK);
    return wr_access_log_new(writer, metrics);
}

static const char *close_log(struct wr_access_log *log)
{
    static char text[1 << 20];
    wr_access_log_free(log);
    wr_writer_close(writer, 20 * WR_SEC);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static const struct wr_access_exchange whole = {
    .wall_usec = UINT64_C(1767323045000042), /* 2026-01-02 */
    .listener = {"edge", 4},
    .client = {"192.0.2.7:5555", 14},
    .protocol = {"HTTP/1.1", 8},
    .tls = {"TLSv1.3", 7},
    .method = {"GET", 3},
    .scheme = {"https", 5},
    .authority = {"example.com", 11},
    .path = {"/a?b=\"c\"", 8},
    .user_agent = {"curl/8", 6},
    .referer = {"-", 1},
    .request_id = {"id1", 3},
    .forwarded_for = {"192.0.2.7", 9},
    .tunnel = {"websocket", 9},
    .status = 200,
    .request_bytes = 0,
    .response_bytes = UINT64_MAX,
    .route = {"r", 1},
    .cluster = {"c", 1},
    .endpoint = {"10.0.0.1:80", 11},
    .upstream_reused = true,
    .attempts = 2,
    .head_usec = 0,
    .upstream_connect_usec = 1,
    .upstream_head_usec = 23456,
    .duration_usec = 34567890,
    .ended = WR_OK,
};

Test(access_log, a_line_of_an_exchange)
{
    struct wr_access_log *log = open_log();
    cr_assert(wr_access_log_enabled(log));
    wr_access_log_exchange(log, &whole);
    cr_assert_str_eq(
        close_log(log),
        "{\"type\":\"request\",\"time\":\"2026-01-02T03:04:05.000042Z\",\"listener\":\"edge\","
        "\"client\":\"192.0.2.7:5555\",\"protocol\":\"HTTP/1.1\",\"tls\":\"TLSv1.3\","
        "\"method\":\"GET\",\"scheme\":\"https\",\"authority\":\"example.com\","
        "\"path\":\"/a?b=\\\"c\\\"\",\"user_agent\":\"curl/8\",\"referer\":\"-\","
        "\"request_id\":\"id1\",\"forwarded_for\":\"192.0.2.7\",\"status\":200,"
        "\"tunnel\":\"websocket\","
        "\"request_bytes\":0,\"response_bytes\":18446744073709551615,\"route\":\"r\","
        "\"cluster\":\"c\",\"endpoint\":\"10.0.0.1:80\",\"upstream_reused\":true,\"attempts\":2,"
        "\"head_us\":0,\"upstream_connect_us\":1,\"upstream_head_us\":23456,"
        "\"duration_us\":34567890,\"ended\":\"ok\"}\n");
}

Test(access_log, what_is_empty_or_did_not_happen_is_left_out)
{
    struct wr_access_exchange nothing = {
        .wall_usec = 999999,
        .head_usec = WR_NEVER,
        .upstream_connect_usec = WR_NEVER,
        .upstream_head_usec = WR_NEVER,
        .duration_usec = WR_NEVER,
        .ended = WR_ERR_REQUEST_HEADER_TIMEOUT,
    };
    struct wr_access_log *log = open_log();
    wr_access_log_exchange(log, &nothing);
    cr_assert_str_eq(close_log(log),
                     "{\"type\":\"request\",\"time\":\"1970-01-01T00:00:00.999999Z\",\"status\":0,"
                     "\"request_bytes\":0,\"response_bytes\":0,\"upstream_reused\":false,"
                     "\"attempts\":0,\"ended\":\"request_header_timeout\"}\n");
}

Test(access_log, a_line_of_a_refusal)
{
    struct wr_access_refusal refusal = {
        .wall_usec = UINT64_C(1767323046999999),
        .listener = WR_STR("edge"),
        .client = WR_STR("[2001:db8::1]:443"),
        .reason = WR_REFUSAL_TOO_MANY_HANDSHAKES,
        .cause = WR_CAUSE_BACKLOG,
        .sni = WR_STR("a\nb"),
        .duration_usec = 77,
    };
    struct wr_access_log *log = open_log();
    wr_access_log_refusal(log, &refusal);
    refusal.cause = WR_CAUSE_NONE;
    refusal.reason = WR_REFUSAL_TLS_ERROR;
    refusal.detail = WR_STR("UNSUPPORTED_PROTOCOL");
    refusal.sni = WR_STR("");
    wr_access_log_refusal(log, &refusal);
    cr_assert_str_eq(
        close_log(log),
        "{\"type\":\"refused\",\"time\":\"2026-01-02T03:04:06.999999Z\",\"listener\":\"edge\","
        "\"client\":\"[2001:db8::1]:443\",\"reason\":\"too_many_handshakes\","
        "\"cause\":\"backlog\",\"sni\":\"a\\u000ab\",\"duration_us\":77}\n"
        "{\"type\":\"refused\",\"time\":\"2026-01-02T03:04:06.999999Z\",\"listener\":\"edge\","
        "\"client\":\"[2001:db8::1]:443\",\"reason\":\"tls_error\","
        "\"detail\":\"UNSUPPORTED_PROTOCOL\",\"duration_us\":77}\n");
}

Test(access_log, the_date_follows_the_second_either_way)
{
    static const uint64_t seconds[] = {
        1767323045, 1767323045, 1767323046,
        1767323045, 1709164800, 253402300800 /* year 10000: not a date of RFC 3339 */};
    static const char *const dates[] = {"2026-01-02T03:04:05", "2026-01-02T03:04:05",
                                        "2026-01-02T03:04:06", "2026-01-02T03:04:05",
                                        "2024-02-29T00:00:00", "1970-01-01T00:00:00"};
    struct wr_access_log *log = open_log();
    struct wr_access_exchange exchange = whole;
    for (size_t i = 0; i < 6; i++) {
        exchange.wall_usec = seconds[i] * WR_SEC + 123456;
        wr_access_log_exchange(log, &exchange);
    }
    const char *line = close_log(log);
    for (size_t i = 0; i < 6; i++, line = strchr(line, '\n') + 1) {
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "%s.123456Z\"", dates[i]);
        cr_assert_eq(strncmp(strstr(line, "\"time\":\"") + 8, expected, strlen(expected)), 0,
                     "%.60s", line);
    }
}

Test(access_log, without_a_writer_nothing_is_written)
{
    struct wr_access_log *log = wr_access_log_new(NULL, NULL);
    cr_assert_not(wr_access_log_enabled(log));
    wr_access_log_exchange(log, &whole);
    wr_access_log_refusal(log, &(struct wr_access_refusal){0});
    wr_access_log_flush(log);
    wr_access_log_free(log);
    wr_access_log_free(NULL);
}

static unsigned long long file_size(void)
{
    struct stat facts;
    return stat(path, &facts) == 0 ? (unsigned long long)facts.st_size : 0;
}

Test(access_log, lines_are_gathered_until_they_are_flushed)
{
    struct wr_access_log *log = open_log();
    wr_access_log_exchange(log, &whole);
    usleep(20000);
    cr_assert_eq(file_size(), 0);
    wr_access_log_flush(log);
    while (file_size() == 0)
        usleep(1000);
    for (int i = 0; i < 200; i++) /* more than the buffer holds: goes out by itself */
        wr_access_log_exchange(log, &whole);
    while (file_size() < 50000)
        usleep(1000);
    (void)close_log(log);
}

Test(access_log, dropped_lines_are_counted)
{
    cr_assert_eq(wr_writer_open(path, 100, &writer), WR_OK);
    struct wr_access_log *log = wr_access_log_new(writer, metrics);
    for (int i = 0; i < 3; i++)
        wr_access_log_exchange(log, &whole);
    wr_access_log_flush(log);
    cr_assert_eq(wr_metric_get(&metrics->access_log_dropped), 3);
    wr_access_log_exchange(log, &whole);
    cr_assert_str_empty(close_log(log));
    cr_assert_eq(wr_metric_get(&metrics->access_log_dropped), 4);
}

static void set_foreign(struct wr_access_exchange *exchange, struct wr_str s)
{
    exchange->method = s;
    exchange->authority = s;
    exchange->path = s;
    exchange->user_agent = s;
    exchange->referer = s;
    exchange->request_id = s;
    exchange->forwarded_for = s;
}

static void log_foreign(struct wr_access_log *log, FILE *raw, struct wr_str s)
{
    struct wr_access_exchange exchange = whole;
    set_foreign(&exchange, s);
    wr_access_log_exchange(log, &exchange);
    cr_assert_eq(fwrite(s.p, 1, s.n, raw), s.n);
    cr_assert_eq(fwrite("\xff\xff", 1, 2, raw), 2);
}

/* Bytes that make trouble more likely than chance would; no two 0xff in a row, they end a line of the raw file. */
static size_t hostile(char *out, size_t n, uint64_t *seed)
{
    static const unsigned char nasty[] = {0,    '"',  '\\', '\n', '\r', 0x1b, 0x7f, 0x80, 0xa8,
                                          0xbf, 0xc2, 0xc0, 0xe0, 0xe2, 0xed, 0xa0, 0xf0, 0x9f,
                                          0xf4, 0x90, 0x8f, 0xf5, 0x85, 'u',  '}',  ','};
    for (size_t i = 0; i < n; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned random = (unsigned)(*seed >> 33);
        unsigned char c =
            random & 1 ? nasty[(random >> 1) % sizeof(nasty)] : (unsigned char)(random >> 1);
        out[i] = (char)(c == 0xff && (i + 1 == n || i == 0 || out[i - 1] == '\xff') ? 'x' : c);
    }
    return n;
}

/* Python's JSON and UTF-8 readers judge what we have written of every byte and of thousands of random strings. */
Test(access_log, another_program_reads_what_a_hostile_client_sent)
{
    static char bytes[40000];
    uint64_t seed = 2026;
    struct wr_access_log *log = open_log();
    FILE *raw = fopen(raw_path, "w");
    cr_assert_not_null(raw);
    for (int i = 0; i < 255; i++) {
        bytes[0] = (char)i;
        log_foreign(log, raw, wr_str(bytes, 1));
    }
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    bytes[255] = 'x';
    log_foreign(log, raw, wr_str(bytes, 256));
    for (size_t i = 0; i < 3000; i++)
        log_foreign(log, raw, wr_str(bytes, hostile(bytes, i % 61, &seed)));
    memset(bytes, 1, sizeof(bytes)); /* 1.7 MB of one line: far more than the buffer */
    log_foreign(log, raw, wr_str(bytes, sizeof(bytes)));
    log_foreign(log, raw, wr_str(bytes, hostile(bytes, sizeof(bytes), &seed)));
    log_foreign(log, raw, WR_STR("last"));
    cr_assert_eq(fclose(raw), 0);
    (void)close_log(log);
    cr_assert_eq(wr_metric_get(&metrics->access_log_dropped), 0);

    char command[512];
    (void)snprintf(command, sizeof(command),
                   "python3 test/unit/observe/read_access_log.py %s %s method authority path "
                   "user_agent referer request_id forwarded_for",
                   path, raw_path);
    cr_assert_eq(system(command), 0);
}
