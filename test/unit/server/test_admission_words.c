/* What is said of each reason, as it is read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "server/admission_words.h"

static struct wr_downstream_options options;
static struct wr_admission_view view;

static void start(void)
{
    options = (struct wr_downstream_options){
        .name = "edge",
        .max_connections = 1000,
        .refusal_share = 5,
        .timeouts = {.client_hello = 5 * WR_SEC,
                     .handshake = 10 * WR_SEC,
                     .keep_alive = 60 * WR_SEC},
        .admission = {.mode = WR_ADMISSION_FIXED,
                      .max_pending_handshakes = 1000,
                      .max_silent = 200,
                      .max_delay = 50 * WR_MSEC,
                      .max_source_share = 25,
                      .min_share = 20},
        .access = {.source_bits_ipv4 = 32, .source_bits_ipv6 = 64},
    };
    view = (struct wr_admission_view){
        .name = "edge",
        .options = &options,
        .workers = 2,
        .cores = 2,
        .files = 1024,
        .tls = true,
        .tickets = true,
        .calm = WR_NEVER,
        .last = {.usec = WR_SEC, .accepted = 5900},
        .ten = {.usec = 10 * WR_SEC, .accepted = 59000},
        .total = {.usec = 3600 * WR_SEC, .accepted = 60000},
    };
}

TestSuite(words, .init = start);

static char *words(void (*write)(FILE *out, size_t i), size_t i)
{
    static char *text;
    size_t length;
    free(text);
    FILE *out = open_memstream(&text, &length);
    write(out, i);
    (void)fclose(out);
    return text;
}

static void write_state(FILE *out, size_t i)
{
    (void)i;
    wr_words_state(out, &view);
}

static void write_reason(FILE *out, size_t i)
{
    wr_words_explain(out, i, &view);
}

static void expect_state(const char *text)
{
    cr_expect_str_eq(words(write_state, 0), text);
}

static const char *explained(const char *reason, const char *cause)
{
    for (size_t i = 0; i < wr_words_count(); i++) {
        struct wr_words_finding finding = wr_words_finding(i, &view);
        if (strcmp(finding.reason, reason) == 0 && strcmp(finding.cause, cause) == 0)
            return words(write_reason, i);
    }
    return "(no such reason)";
}

static void expect_says(const char *reason, const char *cause, const char *text)
{
    const char *said = explained(reason, cause);
    cr_expect(strstr(said, text), "\"%s\" is not in: %s", text, said);
}

static void expect_silence(const char *reason, const char *cause, const char *text)
{
    const char *said = explained(reason, cause);
    cr_expect_not(strstr(said, text), "\"%s\" is in: %s", text, said);
}

static void refuse(enum wr_refusal reason, enum wr_refusal_cause cause, uint64_t n)
{
    view.last.refused[reason] += n;
    view.ten.refused[reason] += 10 * n;
    view.total.refused[reason] += 10 * n;
    view.calm = 0;
    if (cause == WR_CAUSE_NONE)
        return;
    view.last.by_cause[cause] += n;
    view.ten.by_cause[cause] += 10 * n;
}

/* ---- the sentence on how it is ---- */

Test(words, serving)
{
    expect_state("serving everything, 5,900 connections a second");
    view.ten.refused[WR_REFUSAL_NOT_TLS] = 30;
    expect_state(
        "serving everything, 5,900 connections a second; 3.0 a second came to nothing, for "
        "reasons told below");
}

Test(words, refusing)
{
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY, 4312);
    expect_state("refusing 4,312 of 5,900 connections a second: too_many_handshakes (delay)");
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_BACKLOG, 100);
    refuse(WR_REFUSAL_DENIED, WR_CAUSE_NONE, 1);
    expect_state("refusing 4,413 of 5,900 connections a second: most often too_many_handshakes "
                 "(mostly delay)");
    view.last.accepted = 10;
    expect_state("refusing 4,413 connections a second, with 10 new ones a second: most often "
                 "too_many_handshakes (mostly delay)");
}

Test(words, after_it_is_over)
{
    refuse(WR_REFUSAL_DENIED, WR_CAUSE_NONE, 7);
    view.calm = 4 * WR_SEC;
    view.last.refused[WR_REFUSAL_DENIED] = 0;
    expect_state("serving everything again: of those refused in the last 10 s none was in the last "
                 "1 s; 70 were refused since the start, the last 4 s ago");
    view.ten.refused[WR_REFUSAL_DENIED] = 0;
    view.calm = 42 * WR_SEC;
    expect_state("serving everything, 5,900 connections a second; 70 were refused since the start, "
                 "the last 42 s ago");
    view.ten.accepted = 0;
    expect_state(
        "idle: nobody has connected in the last 10 s; 70 were refused since the start, the "
        "last 42 s ago");
    view.draining = true;
    view.now.served = 3;
    expect_state("draining: takes no new connection, 3 are open");
}

Test(words, every_state_has_a_label)
{
    for (unsigned i = WR_ADMISSION_DRAINING; i <= WR_ADMISSION_SERVING; i++)
        cr_expect_gt(strlen(wr_words_state_label((enum wr_admission_state)i)), 0);
}

/* ---- reasons ---- */

Test(words, every_reason_and_cause_is_explained_once)
{
    for (unsigned i = 0; i < WR_REFUSAL__COUNT; i++) {
        if (i != WR_REFUSAL_TOO_MANY_HANDSHAKES)
            cr_expect_str_neq(explained(wr_refusal_label((enum wr_refusal)i), ""),
                              "(no such reason)");
    }
    for (unsigned i = WR_CAUSE_NONE + 1; i < WR_CAUSE__COUNT; i++)
        cr_expect_str_neq(
            explained("too_many_handshakes", wr_refusal_cause_label((enum wr_refusal_cause)i)),
            "(no such reason)");
    cr_expect_str_neq(explained("accept_queue", ""), "(no such reason)");
    cr_expect_eq(wr_words_count(), WR_REFUSAL__COUNT - 1 + WR_CAUSE__COUNT - 1 + 1);
}

/* They stand in JSON as they are. */
Test(words, nothing_needs_escaping)
{
    view.access_log = true;
    options.access.deny_count = options.access.allow_count = 1;
    for (size_t i = 0; i < wr_words_count(); i++) {
        const char *said = words(write_reason, i);
        cr_expect_gt(strlen(said), 20);
        cr_expect_eq(said[strlen(said) - 1], '.', "%s", said);
        for (const char *p = said; *p != '\0'; p++)
            cr_expect(*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\', "%s", said);
    }
}

Test(words, counts_by_reason_and_cause)
{
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_SHARE, 3);
    view.ten.dropped = 8;
    for (size_t i = 0; i < wr_words_count(); i++) {
        struct wr_words_finding finding = wr_words_finding(i, &view);
        uint64_t expected = strcmp(finding.cause, "share") == 0           ? 30
                            : strcmp(finding.reason, "accept_queue") == 0 ? 8
                                                                          : 0;
        cr_expect_eq(finding.ten, expected, "%s %s", finding.reason, finding.cause);
        cr_expect_eq(finding.last, expected == 30 ? 3 : 0);
    }
}

#define HANDSHAKES "too_many_handshakes"

Test(words, backlog)
{
    expect_says(HANDSHAKES, "backlog", "admission.max_pending_handshakes lets 1,000 be pending");
    expect_silence(HANDSHAKES, "backlog", "raise");
    expect_silence(HANDSHAKES, "backlog", "trusted");
    options.admission.trusted_reserve = 10;
    expect_says(HANDSHAKES, "backlog", "10 of these (admission.trusted_reserve)");
    options.admission.mode = WR_ADMISSION_ADAPTIVE;
    view.now.limit = 37;
    expect_says(HANDSHAKES, "backlog", "follows the waits, 37 over all workers");
    options.admission.max_pending_handshakes = 0;
    expect_says(HANDSHAKES, "backlog", "is 0, which refuses every handshake");
    expect_silence(HANDSHAKES, "backlog", "was full");
}

Test(words, backlog_of_clients)
{
    view.now.running = 1900;
    view.now.busy_most = 5 * WR_SEC;
    expect_says(HANDSHAKES, "backlog",
                "1,900 handshakes are running, and few of them finish though none has to wait for "
                "the processor: their clients do not go on. timeouts.handshake (10 s)");
    view.last.full = 9500;
    view.last.took_usec = 9500 * 200 * WR_MSEC;
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_BACKLOG, 2500);
    expect_says(HANDSHAKES, "backlog",
                "from accept to its end one takes 200 ms: clients are far away and hold a slot "
                "meanwhile. For all that are asked for that makes some 1,200 slots a worker");
    expect_silence(HANDSHAKES, "backlog", "do not go on");
    expect_silence(HANDSHAKES, "backlog", "of a worker's time");
}

Test(words, delay)
{
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY, 10000);
    view.last.full = 2000;
    view.ten.full = 20000;
    expect_silence(HANDSHAKES, "delay", "No more than");
    expect_says(HANDSHAKES, "delay", "admission.max_handshake_delay (50 ms)");
    expect_says(HANDSHAKES, "delay", "Just now that is so in no worker.");
    expect_silence(HANDSHAKES, "delay", "costs"); /* not measured */
    view.now.cost_full_most = 545;
    view.now.delayed = 1;
    view.now.wait_most = 48 * WR_MSEC;
    view.rsa = true;
    expect_says(
        HANDSHAKES, "delay",
        "That is so in 1 of 2 workers just now, where the longest has waited 48 ms. A "
        "handshake costs 545 us of a worker's time here (full 545 us, resumed not known), "
        "so that a worker can do 1,834 a second at most; over the last 10 s, 6,000 a second "
        "were asked for in each. That is more than can be done, whatever the limits are. "
        "weir has 2 workers and may use 2 cores: more of either would help. Most of that goes to "
        "full handshakes under RSA keys: an ECDSA certificate (P-256) costs about a fifth "
        "of RSA 2048. Of 20,000 handshakes only 0 resumed");
    view.ten.full = 10000;
    expect_says(HANDSHAKES, "delay", "No more than 500 a second are done");
    view.cores = 8;
    view.tickets = false;
    expect_says(HANDSHAKES, "delay", "weir has 2 workers and may use 8 cores: raise workers.");
    expect_says(HANDSHAKES, "delay", "Session tickets are off");
    expect_says(HANDSHAKES, "backlog", "5,500 a second were asked for");
}

Test(words, delay_by_other_work)
{
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY, 10);
    view.last.full = 190;
    view.ten.full = 1900;
    view.ten.false_claims = 1800;
    view.now.cost_full_most = 500;
    view.now.busy_most = 5 * WR_SEC;
    expect_says(HANDSHAKES, "delay", "The 100 a second that come just now would fit");
    expect_says(HANDSHAKES, "delay", "admission.min_share (20 %)");
    expect_says(HANDSHAKES, "delay", "1,800 of 1,900 full handshakes claimed a session");
    expect_silence(HANDSHAKES, "delay", "whatever the limits are");
}

Test(words, sources)
{
    expect_says(HANDSHAKES, "share", "admission.max_share_per_source (25 %), got no more");
    expect_silence(HANDSHAKES, "share", "bits");
    expect_silence(HANDSHAKES, "share", "at once");
    options.access.source_bits_ipv4 = 24;
    options.admission.max_pending_handshakes = 10;
    expect_says(HANDSHAKES, "share", "share their first 24 bits");
    expect_says(HANDSHAKES, "share", "max_pending_handshakes at 10 that is 2 at once");
    expect_says(HANDSHAKES, "resumption", "admission.resumption_first");
}

Test(words, rates)
{
    options.access.connections_per_source = (struct wr_rate){.per_second = 50, .burst = 100};
    expect_says("rate_limited", "", "a worker: connections_per_source 50 a second, 100 at once;");
    expect_silence("rate_limited", "", "handshakes");
    options.access.handshakes = (struct wr_rate){.per_second = 2000, .burst = 2000};
    expect_says("rate_limited", "", "handshakes 2,000 a second");
}

Test(words, lists)
{
    options.access.deny_count = 3;
    expect_says("denied", "", "admission.deny (3 entries)");
    expect_silence("denied", "", "allow");
    expect_silence("denied", "", "log");
    view.access_log = true;
    options.access.allow_count = 2;
    expect_says("denied", "", "not in admission.allow (2 entries)");
    expect_says("denied", "", "access log");
    expect_says("tls_error", "", "access log");
}

Test(words, connections)
{
    expect_says("too_many_connections", "",
                "limits.connections (1,000 a worker) or admission.max_silent (200 a worker) was");
    view.now.open_most = 1000;
    view.now.served = view.now.idle = 2000;
    expect_says("too_many_connections", "", "lets 1,000 be open in a worker, and 1,000 are");
    expect_says("too_many_connections", "", "2,000, are idle between requests");
    expect_silence("too_many_connections", "", "max_silent");
    view.now.open_most = view.now.silent_most = 200;
    expect_says("too_many_connections", "", "admission.max_silent lets 200");
    expect_says("no_descriptors", "", "may have 1,024 descriptors");
    expect_silence("no_descriptors", "", "paused");
    view.ten.paused = 2;
    expect_says("no_descriptors", "", "Accepting paused 2 times");
}

Test(words, clients)
{
    expect_says("client_hello_timeout", "", "within timeouts.client_hello (5 s)");
    expect_says("handshake_timeout", "", "within timeouts.handshake (10 s)");
    expect_says("handshake_timeout", "", "it is clients that stopped half-way");
    view.now.wait_most = WR_SEC;
    expect_silence("handshake_timeout", "", "it is clients");
    expect_says("not_tls", "", "plain HTTP");
    expect_says("draining", "", "told to end");
}

Test(words, kernel)
{
    view.now.queue_limit = 512;
    expect_says("accept_queue", "", "room for 512, 0 are in it");
    expect_says("accept_queue", "", "takes up bursts");
    refuse(WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY, 1);
    expect_says("accept_queue", "", "admission.refusal_share (5 %)");
    expect_silence("accept_queue", "", "admission.overflow");
    options.overflow = WR_OVERFLOW_RESET;
    expect_says("accept_queue", "", "the kernel resets who comes then");
}
