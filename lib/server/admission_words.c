#include "server/admission_words.h"

#include "base/assert.h"
#include "base/compiler.h"
#include "server/admission_sentences.h"

#define PARTS 3

static const struct reason {
    enum wr_refusal reason; /* __COUNT: the kernel's drops */
    enum wr_refusal_cause cause;
    const struct wr_words_part *parts[PARTS]; /* or NULL */
} reasons[] = {
    {WR_REFUSAL_TOO_MANY_HANDSHAKES,
     WR_CAUSE_BACKLOG,
     {&wr_words_on_backlog, &wr_words_on_slots, &wr_words_on_short_processor}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_DELAY, {&wr_words_on_delay, &wr_words_on_processor}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES, WR_CAUSE_SHARE, {&wr_words_on_share, &wr_words_on_slots}},
    {WR_REFUSAL_TOO_MANY_HANDSHAKES,
     WR_CAUSE_RESUMPTION,
     {&wr_words_on_gave_way, &wr_words_on_slots}},
    {WR_REFUSAL_TOO_MANY_CONNECTIONS, WR_CAUSE_NONE, {&wr_words_on_connections}},
    {WR_REFUSAL_RATE_LIMITED, WR_CAUSE_NONE, {&wr_words_on_rates}},
    {WR_REFUSAL_DENIED, WR_CAUSE_NONE, {&wr_words_on_denied}},
    {WR_REFUSAL_CLIENT_HELLO_TIMEOUT, WR_CAUSE_NONE, {&wr_words_on_hello}},
    {WR_REFUSAL_HANDSHAKE_TIMEOUT, WR_CAUSE_NONE, {&wr_words_on_handshake}},
    {WR_REFUSAL_ABANDONED, WR_CAUSE_NONE, {&wr_words_on_abandoned}},
    {WR_REFUSAL_NOT_TLS, WR_CAUSE_NONE, {&wr_words_on_not_tls}},
    {WR_REFUSAL_TLS_ERROR, WR_CAUSE_NONE, {&wr_words_on_tls_error}},
    {WR_REFUSAL_NO_DESCRIPTORS, WR_CAUSE_NONE, {&wr_words_on_descriptors}},
    {WR_REFUSAL_DRAINING, WR_CAUSE_NONE, {&wr_words_on_drain}},
    {WR_REFUSAL__COUNT, WR_CAUSE_NONE, {&wr_words_on_kernel}},
};

/* ---- the interface ---- */

size_t wr_words_count(void)
{
    return WR_COUNT_OF(reasons);
}

static uint64_t counted(const struct reason *reason, const struct wr_admission_counts *counts)
{
    if (reason->reason == WR_REFUSAL__COUNT)
        return counts->dropped;
    return reason->cause != WR_CAUSE_NONE ? counts->by_cause[reason->cause]
                                          : counts->refused[reason->reason];
}

struct wr_words_finding wr_words_finding(size_t i, const struct wr_admission_view *view)
{
    WR_ASSERT(i < WR_COUNT_OF(reasons));
    const struct reason *reason = &reasons[i];
    return (struct wr_words_finding){
        .reason =
            reason->reason == WR_REFUSAL__COUNT ? "accept_queue" : wr_refusal_label(reason->reason),
        .cause = wr_refusal_cause_label(reason->cause),
        .last = counted(reason, &view->last),
        .ten = counted(reason, &view->ten),
    };
}

static const char *explain(FILE *out, const struct wr_words_part *part,
                           const struct wr_admission_view *view, const char *space)
{
    if (part == NULL || (part->when != NULL && !part->when(view)))
        return space;
    for (size_t i = 0; i < part->count; i++) {
        const struct wr_sentence *sentence = &part->sentences[i];
        if (sentence->when != NULL && !sentence->when(view))
            continue;
        (void)fputs(space, out);
        sentence->say(out, view);
        space = " ";
    }
    return space;
}

void wr_words_explain(FILE *out, size_t i, const struct wr_admission_view *view)
{
    WR_ASSERT(i < WR_COUNT_OF(reasons));
    const char *space = "";
    for (size_t j = 0; j < PARTS; j++)
        space = explain(out, reasons[i].parts[j], view, space);
}
