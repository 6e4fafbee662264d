/* ClientHellos, off the wire (first byte 0) or as a message in records of a size that the first byte gives. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "support/hello_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t scratch[WR_HELLO_MESSAGE_MOST];

/* The same, whether it comes at once or in pieces of STEP bytes. */
static void expect_same(const uint8_t *wire, size_t n, size_t step, enum wr_hello_result result,
                        const struct hello_view *view)
{
    struct wr_hello_progress progress = {0};
    struct wr_client_hello facts;
    enum wr_hello_result last = WR_HELLO_NEED_MORE;
    for (size_t have = 0; last == WR_HELLO_NEED_MORE && have < n;) {
        have = have + step < n ? have + step : n;
        last = wr_hello_read(&progress, wire, have, scratch, &facts);
    }
    WR_ASSERT(last == result);
    WR_ASSERT(!view->asked || last != WR_HELLO_WHOLE || hello_view_agrees(view, &facts));
}

static void check(const uint8_t *wire, size_t n, bool records_are_good)
{
    struct wr_hello_progress progress = {0};
    struct wr_client_hello facts;
    struct hello_view view;
    hello_view(wire, n, &view);
    enum wr_hello_result result = wr_hello_read(&progress, wire, n, scratch, &facts);
    if (view.asked) {
        /* Empty records and alerts between are not for us. */
        WR_ASSERT(result == WR_HELLO_WHOLE || (!records_are_good && result == WR_HELLO_MALFORMED));
        WR_ASSERT(result != WR_HELLO_WHOLE || hello_view_agrees(&view, &facts));
    }
    expect_same(wire, n, 1 + n % 7, result, &view);
    expect_same(wire, n, 1 + n / 3, result, &view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t split[HELLO_MOST];
    if (size == 0)
        return 0;
    size_t n = size - 1;
    if (data[0] > 0)
        n = hello_wrap(data + 1, n < WR_HELLO_MESSAGE_MOST ? n : WR_HELLO_MESSAGE_MOST,
                       (size_t)data[0] * 32, split);
    uint8_t *wire = malloc(n > 0 ? n : 1); /* so that a read behind its end is seen */
    WR_ASSERT(wire != NULL);
    memcpy(wire, data[0] > 0 ? split : data + 1, n);
    check(wire, n, data[0] > 0);
    free(wire);
    return 0;
}
