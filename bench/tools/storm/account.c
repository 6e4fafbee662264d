#include "storm/account.h"

#include <string.h>

typedef unsigned long long number;

static const char *const claims[CLAIM__COUNT] = {"full", "resume"};
static const char *const outcomes[OUTCOME__COUNT] = {"full",   "resumed", "reset",   "alert",
                                                     "closed", "gave_up", "stalled", "other"};
static const char *const phases[PHASE__COUNT] = {"connect", "hello", "answered", "finished"};

static struct slot *slot_at(struct account *account, uint64_t start, uint64_t now)
{
    uint64_t i = now > start ? (now - start) / SLOT_USEC : 0;
    return &account->slots[i < SLOTS ? i : SLOTS - 1];
}

void account_begin(struct account *account, uint64_t start, uint64_t now, enum claim claim,
                   uint64_t late)
{
    account->offered[claim]++;
    account->last = now;
    slot_at(account, start, now)->offered++;
    histogram_record(&account->late, late);
}

void account_end(struct account *account, uint64_t start, uint64_t now, enum claim claim,
                 enum outcome outcome, enum phase phase, uint64_t took)
{
    struct slot *slot = slot_at(account, start, now);

    account->ended[claim][outcome][phase]++;
    slot->ended[outcome]++;
    if (outcome == OUTCOME_FULL || outcome == OUTCOME_RESUMED) {
        histogram_record(&account->finished[claim], took);
        slot->waited += took;
    } else if (outcome != OUTCOME_GAVE_UP && outcome != OUTCOME_STALLED) {
        histogram_record(&account->refused, took);
    }
}

void account_add(struct account *account, const struct account *other)
{
    for (int c = 0; c < CLAIM__COUNT; c++) {
        account->offered[c] += other->offered[c];
        histogram_add(&account->finished[c], &other->finished[c]);
        for (int o = 0; o < OUTCOME__COUNT; o++)
            for (int p = 0; p < PHASE__COUNT; p++)
                account->ended[c][o][p] += other->ended[c][o][p];
    }
    account->unbegun += other->unbegun;
    account->cpu += other->cpu;
    if (other->last > account->last)
        account->last = other->last;
    histogram_add(&account->late, &other->late);
    histogram_add(&account->refused, &other->refused);
    for (int i = 0; i < SLOTS; i++) {
        account->slots[i].offered += other->slots[i].offered;
        account->slots[i].waited += other->slots[i].waited;
        for (int o = 0; o < OUTCOME__COUNT; o++)
            account->slots[i].ended[o] += other->slots[i].ended[o];
    }
}

static uint64_t all_of(const uint64_t by_phase[PHASE__COUNT])
{
    uint64_t sum = 0;

    for (int p = 0; p < PHASE__COUNT; p++)
        sum += by_phase[p];
    return sum;
}

static void print_claim(const struct account *account, enum claim claim, FILE *to)
{
    (void)fprintf(to, "\"%s\": {\"offered\": %llu", claims[claim], (number)account->offered[claim]);
    for (int o = 0; o < OUTCOME__COUNT; o++)
        (void)fprintf(to, ", \"%s\": %llu", outcomes[o], (number)all_of(account->ended[claim][o]));
    (void)fprintf(to, ", \"ms\": ");
    histogram_print(&account->finished[claim], to);
    (void)fprintf(to, "}");
}

/* Of all connections; and of those that did not finish, how far they had come. */
static void print_outcomes(const struct account *account, FILE *to)
{
    for (int o = 0; o < OUTCOME__COUNT; o++) {
        uint64_t by_phase[PHASE__COUNT];
        for (int p = 0; p < PHASE__COUNT; p++)
            by_phase[p] = account->ended[CLAIM_FULL][o][p] + account->ended[CLAIM_RESUME][o][p];
        (void)fprintf(to, ", \"%s\": %llu", outcomes[o], (number)all_of(by_phase));
        if (o == OUTCOME_FULL || o == OUTCOME_RESUMED)
            continue;
        (void)fprintf(to, ", \"%s_in\": {", outcomes[o]);
        for (int p = 0; p < PHASE__COUNT; p++)
            (void)fprintf(to, "%s\"%s\": %llu", p ? ", " : "", phases[p], (number)by_phase[p]);
        (void)fprintf(to, "}");
    }
}

void account_print(const struct account *account, uint64_t start, double rate, FILE *to)
{
    uint64_t offered = account->offered[CLAIM_FULL] + account->offered[CLAIM_RESUME];
    double seconds = account->last > start ? (double)(account->last - start) / 1e6 : 0;
    struct histogram finished = account->finished[CLAIM_FULL];

    histogram_add(&finished, &account->finished[CLAIM_RESUME]);
    (void)fprintf(to,
                  "{\"rate\": %.1f, \"offered\": %llu, \"unbegun\": %llu, \"seconds\": %.3f, "
                  "\"offered_a_second\": %.1f",
                  rate, (number)offered, (number)account->unbegun, seconds,
                  seconds > 0 ? (double)offered / seconds : 0);
    print_outcomes(account, to);
    (void)fprintf(to, ", \"ms\": ");
    histogram_print(&finished, to);
    (void)fprintf(to, ", \"refused_ms\": ");
    histogram_print(&account->refused, to);
    (void)fprintf(to, ", \"late_ms\": ");
    histogram_print(&account->late, to);
    (void)fprintf(to, ", \"claims\": {");
    print_claim(account, CLAIM_FULL, to);
    (void)fprintf(to, ", ");
    print_claim(account, CLAIM_RESUME, to);
    (void)fprintf(to, "}, \"client_us\": %.2f, \"start\": %.6f}\n",
                  offered ? (double)account->cpu / (double)offered : 0, (double)start / 1e6);
}

static int slots_used(const struct account *account)
{
    int used = SLOTS;

    while (used > 0) {
        static const struct slot none;
        if (memcmp(&account->slots[used - 1], &none, sizeof(none)) != 0)
            break;
        used--;
    }
    return used;
}

void account_print_series(const struct account *account, uint64_t start, FILE *to)
{
    int used = slots_used(account);
    uint64_t open = 0;

    (void)fprintf(to, "{\"start\": %.6f, \"slot\": %.3f, \"slots\": [", (double)start / 1e6,
                  SLOT_USEC / 1e6);
    for (int i = 0; i < used; i++) {
        const struct slot *slot = &account->slots[i];
        uint64_t finished = slot->ended[OUTCOME_FULL] + slot->ended[OUTCOME_RESUMED];
        open += slot->offered;
        (void)fprintf(to, "%s\n{\"offered\": %llu", i ? "," : "", (number)slot->offered);
        for (int o = 0; o < OUTCOME__COUNT; o++) {
            (void)fprintf(to, ", \"%s\": %llu", outcomes[o], (number)slot->ended[o]);
            open -= slot->ended[o];
        }
        (void)fprintf(to, ", \"open\": %llu, \"wait_ms\": %.3f}", (number)open,
                      finished ? (double)slot->waited / (double)finished / 1e3 : 0);
    }
    (void)fprintf(to, "]}\n");
}
